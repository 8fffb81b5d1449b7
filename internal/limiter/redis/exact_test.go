package redis

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"weir/internal/limiter"
	"weir/internal/testenv"
)

// faulty is the Redis of a test, or the nodes of its cluster. Faults affect the last of its servers.
type faulty struct {
	servers []*testenv.Redis
	admins  []*redis.Client // a client of each server
	tenants []string        // hash tags
	toMove  []string        // tenants whose slots have not moved
}

// TestFaultsAdmitNoMoreThanTheLimit repeatedly disturbs Redis while many callers of two stores
// share a limit, with batches and a memory of denials. A call whose reply was lost may have been
// counted and is not repeated, so the callers may get less than the limit, but never more.
func TestFaultsAdmitNoMoreThanTheLimit(t *testing.T) {
	r := testenv.RedisServer(t)
	testFaults(t, Options{Main: at(r.Addr())}, faulty{servers: []*testenv.Redis{r}, tenants: []string{""}})
}

// testFaultsOfACluster disturbs the node of a cluster that has most tenants, and moves their
// slots.
func testFaultsOfACluster(t *testing.T, cluster *cluster) {
	f := faulty{servers: cluster.nodes}
	for n := 0; len(f.tenants) < 12; n++ { // most of them on the last node
		tag := fmt.Sprintf("{%d}", n)
		if on := limiter.Slot([]byte(tag)) * 3 / limiter.Slots; on == 2 || on == 1 && len(f.tenants)%3 == 0 {
			f.tenants = append(f.tenants, tag)
		}
	}
	testFaults(t, cluster.o, f)
}

func testFaults(t *testing.T, o Options, f faulty) {
	for _, server := range f.servers {
		f.admins = append(f.admins, connect(t, server))
	}
	last := len(f.servers) - 1
	for _, c := range []struct {
		name    string
		timeout time.Duration
		do      func(t *testing.T)
		fails   bool // some requests fail
	}{
		{"connections are cut", long, func(t *testing.T) {
			do(t, f.admins[last], "client", "kill", "type", "normal", "skipme", "yes")
		}, true},
		{"scripts are forgotten", long, func(t *testing.T) { do(t, f.admins[last], "script", "flush") }, false},
		{"Redis stands still", 20 * time.Millisecond, func(*testing.T) {
			f.servers[last].Pause()
			testenv.Pass(50 * time.Millisecond) // longer than the timeout of calls
			f.servers[last].Resume()
		}, true},
		{"slots move", long, f.moveSlot, false},
	} {
		if last == 0 && c.name == "slots move" {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			for _, admin := range f.admins {
				do(t, admin, "flushall")
			}
			f.toMove = f.tenants
			o.Main.Timeout, o.DenyMemory = c.timeout, 1<<20
			stores := [2]*Store{open(t, o), open(t, o)}
			o.Main.Timeout, o.DenyMemory = long, 0
			admitUnderFaults(t, stores, open(t, o), f.tenants, func() { c.do(t) }, c.fails)
		})
	}
}

// moveSlot moves the slot of the next tenant to the first node, if the slot is on the last node.
// A slot moves only once: nodes that do not know each other's latest epochs may disagree about
// the owner of a slot that moves back.
func (f *faulty) moveSlot(t *testing.T) {
	if len(f.toMove) == 0 {
		return
	}
	tenant := f.toMove[0]
	f.toMove = f.toMove[1:]
	slot := limiter.Slot([]byte(tenant))
	if slot*3/limiter.Slots != 2 {
		return
	}
	from, to := f.admins[2], f.admins[0]
	fromID, toID := do(t, from, "cluster", "myid"), do(t, to, "cluster", "myid")
	host, port, _ := net.SplitHostPort(f.servers[0].Addr())
	do(t, to, "cluster", "setslot", slot, "importing", fromID)
	do(t, from, "cluster", "setslot", slot, "migrating", toID)
	do(t, from, "migrate", host, port, "", 0, 5000, "keys", tenant+"tenant", tenant+"user")
	for _, server := range []*redis.Client{to, from, f.admins[1]} {
		do(t, server, "cluster", "setslot", slot, "node", toID)
	}
}

// admitUnderFaults sends requests of many callers to two stores while faults occur. Then a
// patient store uses up the remaining units of the limits.
func admitUnderFaults(t *testing.T, stores [2]*Store, patient *Store, tenants []string, fault func(), fails bool) {
	amount := int64(3000 / len(tenants))
	limit, ofUser := yearly(uint64(amount)), yearly(uint64(2*amount))
	admitted, denied := make([]atomic.Int64, len(tenants)), make([]atomic.Int64, len(tenants))
	var failed atomic.Int64
	decide := func(s *Store, n int) {
		n %= len(tenants)
		var out [2]limiter.Decision
		switch over, err := s.Decide(t.Context(), []limiter.Hit{hit(tenants[n]+"user", ofUser, 1), hit(tenants[n]+"tenant", limit, 1)}, out[:]); {
		case err != nil:
			if failed.Add(1) == 1 {
				t.Logf("the first error: %v", err)
			}
			testenv.Pass(time.Millisecond) // the breaker may be open
		case over:
			denied[n].Add(1)
		default:
			admitted[n].Add(1)
		}
	}

	for n := range tenants { // creates the keys, because a cluster refuses new keys of a slot that moves
		decide(patient, n)
	}
	done := make(chan struct{})
	var callers, faults sync.WaitGroup
	faults.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(2 * time.Millisecond):
				fault()
			}
		}
	})
	for i := range 64 {
		callers.Go(func() {
			for n := range 100 {
				decide(stores[i%2], i/2+n)
			}
		})
	}
	callers.Wait()
	close(done)
	faults.Wait()
	testenv.Equal(t, failed.Load() > 0, fails, "requests failed")

	// A store whose timeout is long even on a busy machine admits the remaining units.
	for n, tenant := range tenants {
		for range 2 * amount {
			if denied[n].Load() > 0 {
				break
			}
			decide(patient, n)
		}
		if denied[n].Load() == 0 {
			t.Fatalf("%q: the limit is never reached", tenant)
		}
		var out [2]limiter.Decision
		testenv.Must(patient.Decide(t.Context(), []limiter.Hit{hit(tenant+"user", ofUser, 0), hit(tenant+"tenant", limit, 0)}, out[:]))(t)
		if n := admitted[n].Load(); n > amount || out[1].Used != amount || out[0].Used != amount {
			t.Errorf("%q: %d were admitted; the tenant has used %d and the user %d, want %d each and no more admitted", tenant, n, out[1].Used, out[0].Used, amount)
		}
	}
	t.Logf("%d failed", failed.Load())
}
