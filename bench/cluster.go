package main

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	nameCluster      = "cluster"
	nameClusterFloor = "least script, cluster"

	primaries = 3
	slots     = 16384
	tags      = 128 // number of hash tags that Weir uses in keys
)

// cluster measures the cost of a decision on a cluster, compared with one Redis
// and with the least script, with a call for each slot of the cluster.
func (b *bench) cluster(ctx context.Context) error {
	s, err := b.servers()
	if err != nil {
		return err
	}
	nodes, err := b.redisCluster(ctx)
	if err != nil {
		return err
	}
	var addresses []string
	for _, n := range nodes {
		addresses = append(addresses, n.address)
	}
	weir, err := b.weir(nameCluster, rulesOf(mostDescriptors, plenty), "REDIS_TYPE=CLUSTER", "REDIS_URL="+strings.Join(addresses, ","))
	if err != nil {
		return err
	}
	var subjects []subject
	for _, n := range limitCounts {
		subjects = append(subjects,
			subject{name: nameClusterFloor, descriptors: n, server: s.floor, redis: nodes, measure: b.addClusterWay},
			subject{name: nameRedis, descriptors: n, server: s.stored, redis: s.redises(), keys: users},
			subject{name: nameCluster, descriptors: n, server: weir, redis: nodes, keys: users})
	}
	if err := b.useOnce(ctx, subjects); err != nil {
		return err
	}
	b.results.Cluster, err = b.costs(ctx, subjects)
	return err
}

// redisCluster starts a cluster of primaries, and waits until it serves.
func (w *workshop) redisCluster(ctx context.Context) (nodes []*program, err error) {
	for i := range primaries {
		_, bus, _ := net.SplitHostPort(freeAddress())
		n, err := w.redis("--cluster-enabled", "yes", "--cluster-port", bus, "--cluster-config-file", filepath.Join(w.dir, fmt.Sprintf("nodes-%d.conf", i)))
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
		host, port, _ := net.SplitHostPort(n.address)
		from, to := i*slots/primaries, (i+1)*slots/primaries-1
		if _, err := n.redisAsk(ctx, fmt.Sprintf("CLUSTER SET-CONFIG-EPOCH %d", i+1), fmt.Sprintf("CLUSTER ADDSLOTSRANGE %d %d", from, to)); err != nil {
			return nil, err
		}
		if _, err := nodes[0].redisAsk(ctx, fmt.Sprintf("CLUSTER MEET %s %s %s", host, port, bus)); err != nil {
			return nil, err
		}
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
		serving := 0
		for _, n := range nodes {
			info, err := n.redisAsk(ctx, "CLUSTER INFO")
			if err != nil {
				return nil, err
			}
			if strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d\r", primaries)) {
				serving++
			}
		}
		if serving == primaries {
			return nodes, nil
		}
	}
	return nil, errors.New("the nodes of the cluster do not find each other")
}

// clusterCounter is a counter of a cluster.
type clusterCounter struct {
	key  string
	slot int
	conn *redisConn // connection to the primary of the slot
}

// addClusterWay measures the least script on a cluster. Each batch makes a call for every
// slot, and has one pipeline for all calls to a primary.
func (b *bench) addClusterWay(ctx context.Context, c *cost, s subject) error {
	conns, script := make([]*redisConn, len(s.redis)), ""
	for i, p := range s.redis {
		conn, err := p.redisConn(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		conn.add("SCRIPT", "LOAD", leastScript)
		if script, err = conn.send(2); err != nil { // a bulk string: its length and its text
			return err
		}
		conns[i] = conn
	}
	counters, err := clusterCounters(conns, s.descriptors)
	if err != nil {
		return err
	}
	defer b.besideFloor(ctx, s)()
	var decisions int64
	work, err := s.work(ctx, func() error {
		for begun := time.Now(); time.Since(begun) < b.seconds/2 && ctx.Err() == nil; decisions += usualBatch {
			bySlot := map[int][]string{}
			connOf := map[int]*redisConn{}
			for range usualBatch {
				for _, hit := range counters[rand.IntN(len(counters))] { //nolint:gosec // need not be hard to guess
					bySlot[hit.slot], connOf[hit.slot] = append(bySlot[hit.slot], hit.key), hit.conn
				}
			}
			lines := map[*redisConn]int{}
			for slot, keys := range bySlot {
				conn := connOf[slot]
				conn.add(append([]string{"EVALSHA", script, fmt.Sprint(len(keys))}, keys...)...)
				lines[conn] += len(keys) + 1
			}
			for conn, n := range lines {
				if _, err := conn.send(n); err != nil {
					return err
				}
			}
		}
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	c.addWork(work, decisions)
	return nil
}

// clusterCounters makes the counters of all users, with hash tags like Weir's.
func clusterCounters(conns []*redisConn, each int) ([][]clusterCounter, error) {
	var slotOf [tags]int
	for tag := range slotOf {
		conns[0].add("CLUSTER", "KEYSLOT", fmt.Sprintf("%02X", tag))
		reply, err := conns[0].send(1)
		if err != nil {
			return nil, err
		}
		if slotOf[tag], err = strconv.Atoi(strings.TrimPrefix(reply, ":")); err != nil {
			return nil, err
		}
	}
	counters, added := make([][]clusterCounter, users), map[*redisConn]int{}
	for user := range counters {
		for i := range each {
			key := fmt.Sprintf("w0|bench|k%d=user-%d", i, user)
			tag := crc32.ChecksumIEEE([]byte(key)) % tags
			c := clusterCounter{fmt.Sprintf("%s{%02X}|1h", key, tag), slotOf[tag], conns[slotOf[tag]*len(conns)/slots]}
			c.conn.add("SET", c.key, "100000000000000", "EX", "3600")
			added[c.conn]++
			counters[user] = append(counters[user], c)
		}
		if user%100 < 99 {
			continue
		}
		for _, conn := range conns {
			if _, err := conn.send(added[conn]); err != nil {
				return nil, err
			}
		}
		clear(added)
	}
	return counters, nil
}

// clusterTable compares the cluster with one Redis of the same run.
func clusterTable(r *results) string {
	var rows []string
	for _, limits := range limitCounts {
		one, cluster, least := r.clusterCost(nameRedis, limits), r.clusterCost(nameCluster, limits), r.clusterCost(nameClusterFloor, limits)
		if cluster.Redis == nil {
			continue
		}
		rows = append(rows, fmt.Sprintf("| %d | %s | %s | %s | %s | %s | %s | %s | %s |", limits,
			one.Answers.show("%.0f"), cluster.Answers.show("%.0f"), one.Server.show("%.1f"), cluster.Server.show("%.1f"),
			one.Redis.show("%.1f"), cluster.Redis.show("%.1f"), cluster.Redis.over(least.Redis).show("%.2f"), cluster.Calls.show("%.2f")))
	}
	return table("| limits | decisions/s, one Redis | cluster | server, µs, one Redis | cluster | Redis, µs, one Redis | all of the cluster | in least scripts over slots | calls per decision |", rows...)
}
