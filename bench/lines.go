package main

import (
	"context"
	"fmt"
)

// scriptLine is the cost of a part of a script.
type scriptLine struct {
	Name         string
	Instructions float64 // instructions of Redis in user space
}

// A script repeats a line repeats times. It is called warmups times before its instructions
// are counted, and then rehearsals times.
const repeats, warmups, rehearsals = 100, 10, 200

// prepared declares the locals that lines use.
const prepared = `local call, tonumber, format, match, byte = redis.call, tonumber, string.format, string.match, string.byte
local keys, int, text, four, bytes = KEYS, ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local one, f, t = keys[1] `

// lineArgs are the arguments of lines: the short state of a window, the state of a bucket,
// and a group as text and in bytes.
var lineArgs = []string{"497000000000012", "1790000000123456 12 2162300000", "3600000000 999999 1 22 ", "0123456789abcdef"}

// luaLines are the parts of Weir's scripts.
var luaLines = []struct{ name, lua string }{
	{"`TIME`", `t = call("TIME")`},
	{"a function of Lua looked up", `f = string.find`},
	{"a function made", `f = function() return one end`},
	{"a table of six fields", `t = { a = 1, b = 2, c = 3, d = 4, e = 5, f = 6 }`},
	{"four integers of text: `match`, `tonumber`", `local a, b, c, d = match(four, "^(%d+) (%d+) (%d+) (%d+) ()") a, b, c, d = tonumber(a), tonumber(b), tonumber(c), tonumber(d)`},
	{"four integers of bytes", `local a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p = byte(bytes, 1, 16) local q = ((((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f) * 256 + g) + (h * 256 + i) * 256 + j + ((k * 256 + l) * 256 + m) * 256 + n + o * 256 + p`},
	{"`MGET` of one key", `call("MGET", one)`},
	{"`MGET` of four", `call("MGET", unpack(keys))`},
	{"hit: reading a short state", `local n = tonumber(int)`},
	{"hit: reading a bucket's state", `local n, a, b, c = tonumber(text), match(text, "^(%d+) (%d+) ?(%d*)$") a, b, c = tonumber(a), tonumber(b), tonumber(c)`},
	{"hit: writing a bucket's state as text", `local s = format("%d %d %d", 1790000000123456, 12, 2162300000)`},
	{"hit: `INCRBY`", `call("INCRBY", one, "1")`},
	{"hit: `SET` with `KEEPTTL`", `call("SET", one, int, "KEEPTTL")`},
	{"hit: `SET` with `PX`", `call("SET", one, int, "PX", 3600000)`},
	{"three limits with a key each: `MGET`, `tonumber`, `INCRBY`", `local s = call("MGET", keys[1], keys[2], keys[3]) for k = 1, 3 do call("INCRBY", keys[k], tonumber(s[k]) and "1") end`},
	{"three limits in one key: `MGET`, `match`, `format`, `SET`", `local a, b, c = match(call("MGET", keys[4])[1], "^(%d+) (%d+) (%d+)$") call("SET", keys[4], format("%d %d %d", a + 1, b + 1, c + 1), "KEEPTTL")`},
}

// lines measures the parts of the scripts.
func (b *bench) lines(ctx context.Context) error {
	redis, err := b.redis()
	if err != nil {
		return err
	}
	b.results.Lines = nil
	if redis.counter == nil {
		return nil // without instructions, the document has no figures of lines
	}
	conn, err := redis.redisConn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	keys := []string{"w1|bench|k0=user-1234|1h", "w1|bench|k1=user-1234|1h", "w1|bench|k2=user-1234|1h", "w1|bench|k0=user-1234|3"}
	for _, key := range keys[:3] {
		conn.add("SET", key, lineArgs[0], "EX", "3600")
	}
	conn.add("SET", keys[3], lineArgs[0]+" 20708000000012 2958000000012", "EX", "3600")
	if _, err := conn.send(len(keys)); err != nil {
		return err
	}

	count := counting{redis, conn, nil}
	ping, empty := count.each(1, "PING"), count.script("return 1", 1, "0")
	b.results.Lines = []scriptLine{
		{"any command: `PING`", ping},
		{"an empty script", empty - ping},
		{"a key or an argument", (count.script("return 1", 1, "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10") - empty) / 10},
		{"a reply of two integers instead of one", count.script("return { 1790000000123456, 497000000000012 }", 3, "0") - empty},
	}
	all := append(append([]string{fmt.Sprint(len(keys))}, keys...), lineArgs...)
	repeated := func(lua string) float64 {
		return count.script(fmt.Sprintf("%s for i = 1, %d do %s end return 1", prepared, repeats, lua), 1, all...)
	}
	none := repeated("")
	for _, l := range luaLines {
		b.results.Lines = append(b.results.Lines, scriptLine{l.name, (repeated(l.lua) - none) / repeats})
	}
	return count.err
}

// counting counts the instructions of commands. After the first error, it sends no more.
type counting struct {
	redis *program
	conn  *redisConn
	err   error
}

// each returns the instructions of a command, as the mean of many calls. Its reply has the
// given number of lines.
func (c *counting) each(lines int, words ...string) float64 {
	var before, after float64
	for n := range warmups + rehearsals {
		if n == warmups {
			before = c.read()
		}
		c.send(lines, words...)
	}
	after = c.read()
	return (after - before) / rehearsals
}

// script returns the instructions of a call of a script.
func (c *counting) script(lua string, lines int, keysAndArgs ...string) float64 {
	sha := c.send(2, "SCRIPT", "LOAD", lua) // a bulk string: its length and its text
	return c.each(lines, append([]string{"EVALSHA", sha}, keysAndArgs...)...)
}

func (c *counting) send(lines int, words ...string) (last string) {
	if c.err == nil {
		c.conn.add(words...)
		last, c.err = c.conn.send(lines)
	}
	return last
}

func (c *counting) read() (n float64) {
	if c.err == nil {
		n, c.err = c.redis.counter.read()
	}
	return n
}

// linesTable shows the costs of the parts of scripts.
func linesTable(r *results) string {
	var rows []string
	for _, l := range r.Lines {
		rows = append(rows, fmt.Sprintf("| %s | %.0f |", l.Name, l.Instructions))
	}
	return table("| part | instructions |", rows...)
}
