package simulate

// difference collects the requests that one set of rules denies and the other admits.
type difference struct {
	Difference
	worst   worst
	clients map[uint64]struct{} // hashes of the clients of these requests
	others  map[uint64]struct{} // hashes of the clients of all requests that the other rules deny
}

// add counts a request. denied is the hit that denies the request under these rules, and others is the
// hit that denies it under the other rules. Each is nil if the rules admit the request.
func (d *difference) add(of *asked, denied, others *hit) {
	if d.clients == nil {
		d.clients, d.others = map[uint64]struct{}{}, map[uint64]struct{}{}
	}
	if denied != nil && others == nil {
		d.Requests++
		d.worst.add(d.Requests, denied.hash, denied.Key)
		d.clients[denied.hash] = struct{}{}
	}
	if others != nil {
		for i := range of.begins {
			d.others[of.begins[i].hash] = struct{}{}
		}
	}
}

func (d *difference) report(by, others string) Difference {
	d.WorstClients, d.By, d.Others = d.worst.top(shownClients), by, others
	d.Clients, d.ClientsOnly = uint64(len(d.clients)), uint64(len(d.clients))
	for hash := range d.clients {
		if _, denied := d.others[hash]; denied {
			d.ClientsOnly--
		}
	}
	return d.Difference
}
