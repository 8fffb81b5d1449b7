package simulate

// difference is what one set of rules denies and the other does not.
type difference struct {
	Difference
	worst worst
	seen  map[uint64]denials // clients of whom a request was denied by one set of rules only, or by the others, by the hashes of their keys
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
