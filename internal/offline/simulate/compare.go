package simulate

// difference is what one set of rules denies and the other does not.
type difference struct {
	engine            *engine // of the rules
	requests, clients uint64
	only              uint64 // of clients, those of whom the other rules deny no request
	worst             worst
	// Clients whose only requests so far the other rules denied, and these before they came to the limit: they
	// are in no table of the engine. Only the fingerprints count.
	absent table
}

// denials say which rules deny some request of a client.
type denials uint8

const (
	differently denials = 1 << iota // these, one that the others admit
	otherwise                       // the others
)

// compareWith has the run decide by old limits, too.
func (r *run) compareWith(limits []*limitStats) {
	r.old = &engine{limits: limits, plan: r.opts.Plan, compare: true}
	r.engine.compare = true
	r.nowOnly.engine, r.wereOnly.engine = &r.engine, r.old
}

// add counts a request that the engine has just denied.
func (d *difference) add(b *batch) {
	denier := d.engine.deniedHit
	d.requests++
	d.worst.add(d.requests, denier.hash, b.key(denier))
	was := d.engine.deniedAt.mark(differently)
	if was&differently != 0 {
		return
	}
	if _, absent := d.absent.known(fingerprint(denier.hash)); absent {
		d.engine.deniedAt.mark(otherwise)
		was |= otherwise
	}
	d.clients++
	if was&otherwise == 0 {
		d.only++
	}
}

// otherwise notes the clients of a request that the other rules deny.
func (d *difference) otherwise(hits []hit) {
	for i := range hits {
		h, fp := &hits[i], fingerprint(hits[i].hash)
		t := d.engine.limits[h.limit].table
		if t == nil {
			d.absent.find(fp)
		} else if at, known := t.known(fp); !known {
			d.absent.find(fp)
		} else if at.mark(otherwise) == differently {
			d.only--
		}
	}
}
