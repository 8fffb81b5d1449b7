package simulate

// difference is what one set of rules denies and the other does not.
type difference struct {
	requests, clients uint64
	only              uint64 // of clients, those of whom the other rules deny no request
	worst             worst
	seen              map[uint64]denials // clients of whom a request was denied by one set of rules only, or by the others, by the hashes of their keys
}

// denials say which rules deny some request of a client.
type denials uint8

const (
	differently denials = 1 << iota // these, one that the others admit
	otherwise                       // the others
)

// add counts a request, of which these rules and the others deny a hit, or nil.
func (d *difference) add(of *asked, denied, others *hit) {
	if d.seen == nil {
		d.seen = map[uint64]denials{}
	}
	if denied != nil && others == nil {
		d.requests++
		d.worst.add(d.requests, denied.hash, denied.Key)
		was := d.seen[denied.hash]
		d.seen[denied.hash] = was | differently
		if was&differently == 0 {
			d.clients++
		}
		if was == 0 {
			d.only++
		}
	}
	if others != nil {
		for i := range of.begins {
			hash := of.begins[i].hash
			if d.seen[hash] == differently {
				d.only--
			}
			d.seen[hash] |= otherwise
		}
	}
}
