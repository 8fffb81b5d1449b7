package simulate

// difference collects the requests that one set of rules denies and the other admits.
type difference struct {
	Difference
	worst worst
	seen  map[uint64]denials // denials of each client, by the hash of its key
}

// denials has a bit for each kind of denial that a client has had.
type denials uint8

const (
	differently denials = 1 << iota // these rules denied a request that the others admit
	otherwise                       // the other rules denied a request
)

// add counts a request. denied is the hit that these rules deny, and others the hit that the other
// rules deny; either may be nil.
func (d *difference) add(of *asked, denied, others *hit) {
	if d.seen == nil {
		d.seen = map[uint64]denials{}
	}
	if denied != nil && others == nil {
		d.Requests++
		d.worst.add(d.Requests, denied.hash, denied.Key)
		was := d.seen[denied.hash]
		d.seen[denied.hash] = was | differently
		if was&differently == 0 {
			d.Clients++
		}
		if was == 0 {
			d.ClientsOnly++
		}
	}
	if others != nil {
		for i := range of.begins {
			hash := of.begins[i].hash
			if d.seen[hash] == differently {
				d.ClientsOnly--
			}
			d.seen[hash] |= otherwise
		}
	}
}
