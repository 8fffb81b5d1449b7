package server

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"weir/internal/testenv"
)

// mount mounts or replaces a secret at dir, and returns the path of its file.
func mount(t *testing.T, dir, text string) string {
	t.Helper()
	return mountFile(t, dir, "secret", text+"\n")
}

// load sends requests from several clients without a pause.
type load struct {
	f       *fixture
	calls   sync.RWMutex // read-locked by calls, locked to keep calls out
	running sync.WaitGroup
	ended   atomic.Bool
	count   atomic.Int64
}

const yearly = 1_000_000_000

// newLoad starts a load, which ends with the test at the latest.
func newLoad(t *testing.T, f *fixture) *load {
	l := &load{f: f}
	for range 4 {
		l.running.Go(func() {
			for !l.ended.Load() {
				l.calls.RLock()
				_, err := l.ask(t.Context())
				l.calls.RUnlock()
				if err != nil && t.Context().Err() == nil {
					t.Errorf("a call failed: %v", err)
					return
				}
			}
		})
	}
	t.Cleanup(func() {
		l.ended.Store(true)
		l.running.Wait()
	})
	return l
}

// ask makes one call and returns the use of the limit.
func (l *load) ask(ctx context.Context) (used int64, err error) {
	response, err := l.f.decide(ctx, describe("user=alice"))
	if err != nil {
		return 0, err
	}
	l.count.Add(1)
	return yearly - int64(response.GetStatuses()[0].GetLimitRemaining()), nil
}

// more waits until 50 more calls are answered.
func (l *load) more(t *testing.T) {
	t.Helper()
	begun := l.count.Load()
	testenv.Until(t, "calls are answered", func() bool { return t.Failed() || l.count.Load() >= begun+50 })
}

// end stops the load and checks that every call was counted once.
func (l *load) end(t *testing.T) {
	t.Helper()
	l.more(t)
	l.ended.Store(true)
	l.running.Wait()
	if used, err := l.ask(t.Context()); err != nil || used != l.count.Load() {
		t.Errorf("%d calls are counted as %d, error %v", l.count.Load(), used, err)
	}
	for _, bad := range []string{"redis fails", "redis failed", "redis does not answer", "swordfish"} {
		if strings.Contains(l.f.log.String(), bad) {
			t.Errorf("the log holds %q", bad)
		}
	}
	l.f.wantNoPassword()
}

// operator changes passwords of Redis over connections that its method kill does not break.
type operator struct {
	t     *testing.T
	nodes []*goredis.Client
}

func newOperator(t *testing.T, password string, nodes ...*testenv.Redis) *operator {
	o := &operator{t: t}
	for _, node := range nodes {
		client := goredis.NewClient(&goredis.Options{Addr: node.Addr(), Password: password, PoolSize: 1, MaxRetries: -1})
		t.Cleanup(func() { client.Close() })
		o.nodes = append(o.nodes, client)
	}
	return o
}

func (o *operator) do(words ...any) {
	o.t.Helper()
	for _, node := range o.nodes {
		if err := node.Do(context.Background(), words...).Err(); err != nil {
			o.t.Error(err)
		}
	}
}

// kill breaks all connections but the operator's own.
func (o *operator) kill() { o.do("client", "kill", "type", "normal", "skipme", "yes") }

// requirePass replaces the password of the default user.
func (o *operator) requirePass(password string) { o.do("config", "set", "requirepass", password) }

// rotate replaces the password of Redis under load: first in the file and then in Redis, then in the
// reverse order. All connections are broken while only the file or only Redis has the new password.
func rotate(t *testing.T, o *operator, replace func(password string), prefix string, args ...string) {
	dir := t.TempDir()
	f := start(t, append(args, "--config="+directory(t, limited(yearly)), "--redis-auth-file="+mount(t, dir, prefix+"swordfish-1"), inTime)...)
	f.wantHealth(true, "OK")
	l := newLoad(t, f)
	l.more(t)
	changed := func(times int) {
		testenv.Until(t, "the file is read", func() bool {
			return strings.Count(f.log.String(), "a changed setting is in use") >= times
		})
	}
	mount(t, dir, prefix+"swordfish-2") // first in the file
	changed(1)
	l.more(t)
	l.calls.Lock() // a call is lost if its connection breaks
	o.kill()
	l.calls.Unlock()
	l.more(t) // with the old password
	replace("swordfish-2")
	l.more(t)

	l.calls.Lock() // first in Redis
	replace("swordfish-3")
	o.kill()
	l.calls.Unlock()
	mount(t, dir, prefix+"swordfish-3")
	l.more(t)
	changed(2)
	f.wantLog("redis accepted the changed URL, user or password")
	l.end(t)
}

// TestPasswordsOfRedisAreReplaced replaces a password in a file as docs/operations.md says: for a
// single Redis, an ACL user, a cluster and sentinels.
func TestPasswordsOfRedisAreReplaced(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(t *testing.T){
		"single": func(t *testing.T) {
			redis := testenv.RedisServer(t, "--requirepass", "swordfish-1")
			o := newOperator(t, "swordfish-1", redis)
			rotate(t, o, o.requirePass, "", "--redis-url="+redis.Addr())
		},
		"user": func(t *testing.T) {
			redis := testenv.RedisServer(t)
			o := newOperator(t, "", redis)
			o.do("acl", "setuser", "weir", "on", ">swordfish-1", "~*", "+@all")
			rotate(t, o, func(password string) { o.do("acl", "setuser", "weir", "resetpass", ">"+password) }, "weir:", "--redis-url="+redis.Addr())
		},
		"cluster": func(t *testing.T) {
			nodes := testenv.RedisCluster(t, 2, 0)
			o := newOperator(t, "", nodes...)
			o.requirePass("swordfish-1")
			rotate(t, o, o.requirePass, "", "--redis-url="+nodes[0].Addr()+","+nodes[1].Addr(), "--redis-type=cluster")
		},
		"sentinel": func(t *testing.T) { // the sentinels' password, too
			primary := testenv.RedisServer(t, "--requirepass", "swordfish-1", "--masterauth", "swordfish-1")
			testenv.RedisReplica(t, primary, "--requirepass", "swordfish-1", "--masterauth", "swordfish-1")
			sentinel := testenv.RedisSentinel(t, primary, "sentinel auth-pass weir swordfish-1", "requirepass swordfish-0", "sentinel down-after-milliseconds weir 600000")
			o, watcher, second := newOperator(t, "swordfish-1", primary), newOperator(t, "swordfish-0", sentinel), t.TempDir()
			rotate(t, o, func(password string) {
				o.requirePass(password)
				watcher.do("acl", "setuser", "default", "resetpass", ">"+password)
				watcher.kill()
				mount(t, second, password)
			}, "", "--redis-url=weir,"+sentinel.Addr(), "--redis-type=sentinel", "--redis-sentinel-auth-file="+mount(t, second, "swordfish-0"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

// TestPasswordsWithColons has URLs with and without a user, and passwords from every source.
func TestPasswordsWithColons(t *testing.T) {
	t.Parallel()
	const password = "p4ss:wo:rd"
	redis := testenv.RedisServer(t)
	newOperator(t, "", redis).do("acl", "setuser", "colon", "on", ">"+password, "~*", "+@all")
	primary := testenv.RedisServer(t, "--requirepass", password, "--masterauth", password)
	testenv.RedisReplica(t, primary, "--requirepass", password, "--masterauth", password)
	sentinel := testenv.RedisSentinel(t, primary, "sentinel auth-pass weir "+password)
	newOperator(t, "", sentinel).do("acl", "setuser", "colon", "on", ">"+password, "+@all")
	newOperator(t, "", sentinel).do("acl", "setuser", "default", "resetpass", ">"+password)
	single, watched := "--redis-url="+redis.Addr(), []string{"--redis-type=sentinel", "--redis-auth=:" + password}
	named, file := "--redis-url=redis://colon@"+redis.Addr(), mount(t, t.TempDir(), password)
	for name, args := range map[string][]string{
		"user in the URL":     {named, "--redis-auth=" + password},
		"and a file":          {named, "--redis-auth-file=" + file},
		"and a command":       {named, "--redis-auth-command=cat " + file},
		"user and password":   {single, "--redis-auth=colon:" + password},
		"no user":             {"--redis-url=" + primary.Addr(), "--redis-auth=:" + password},
		"sentinel":            append(watched, "--redis-url=weir,"+sentinel.Addr(), "--redis-sentinel-auth=:"+password),
		"user at a sentinel":  append(watched, "--redis-url=weir,redis://colon@"+sentinel.Addr(), "--redis-sentinel-auth="+password),
		"and a sentinel file": append(watched, "--redis-url=weir,redis://colon@"+sentinel.Addr(), "--redis-sentinel-auth-file="+file),
	} {
		t.Run(name, func(t *testing.T) {
			start(t, append(args, "--config="+directory(t, limited(3)), inTime)...).wantLimit(3)
		})
	}
}

// TestURLOfRedisIsReplaced moves the server to another Redis. While the new Redis refuses logins,
// the server keeps using the first.
func TestURLOfRedisIsReplaced(t *testing.T) {
	t.Parallel()
	first, second := testenv.RedisServer(t, "--requirepass", "swordfish-1"), testenv.RedisServer(t, "--requirepass", "swordfish-2")
	url := func(r *testenv.Redis, password string) string { return "redis://:" + password + "@" + r.Addr() }
	dir := t.TempDir()
	f := start(t, "--config="+directory(t, limited(yearly)), "--redis-url-file="+mount(t, dir, url(first, "swordfish-1")), inTime)
	f.wantHealth(true, "OK")
	l := newLoad(t, f)
	for _, bad := range []struct{ text, problem, note string }{
		{url(first, "swordfish-1") + "/7", "redis URL has another database, which needs a restart", "--redis-url-file ($REDIS_URL_FILE): redis URL"},
		{url(second, "swordfish-3"), "redis rejects the changed URL, user or password", "Redis rejects a changed URL, user or password: " + second.Addr()},
	} {
		mount(t, dir, bad.text)
		f.wantLog(bad.problem)
		f.wantAnswer("GET", f.debug.addr(), "/", 200, "in Redis at "+first.Addr()+"\n", "amber       A secret or certificate is refused: "+bad.note)
		f.wantAnswer("GET", f.metrics.addr(), "/metrics", 200, "weir_secrets_refused 1\n")
		l.more(t)
	}
	counter := newOperator(t, "swordfish-2", second).nodes[0]
	testenv.Equal(t, counter.DBSize(t.Context()).Val(), 0, "counters where nobody is let in")
	mount(t, dir, url(second, "swordfish-2"))
	f.wantLog("redis accepted the changed URL, user or password")
	l.more(t)
	if counter.DBSize(t.Context()).Val() == 0 {
		t.Error("the second Redis does not count")
	}
	l.ended.Store(true)
	l.running.Wait()
	first.Stop()
	testenv.Must(l.ask(t.Context()))(t)
	f.wantAnswer("GET", f.debug.addr(), "/", 200, "in Redis at "+second.Addr())
	f.wantAnswer("GET", f.metrics.addr(), "/metrics", 200, "weir_secrets_refused 0\n")
	f.wantNoPassword()
}

// TestTokenOfCommand has a command that prints passwords. Redis no longer accepts the first one when
// a new connection is made.
func TestTokenOfCommand(t *testing.T) {
	t.Parallel()
	redis := testenv.RedisServer(t, "--requirepass", "swordfish-1")
	path := filepath.Join(t.TempDir(), "token")
	write(t, path, "swordfish-1\n")
	f := start(t, "--config="+directory(t, limited(yearly)), "--redis-url="+redis.Addr(), "--redis-auth-command=cat "+path, inTime)
	f.wantHealth(true, "OK")
	o, l := newOperator(t, "swordfish-1", redis), newLoad(t, f)
	l.more(t)
	write(t, path, "swordfish-2\n")
	l.calls.Lock()
	o.requirePass("swordfish-2")
	o.kill()
	l.calls.Unlock()
	l.end(t)
}
