package redis

import (
	"context"
	_ "embed" // change.lua, changes.lua
	"strconv"

	"weir/internal/limiter"
)

// The scripts are sent as text, because calls are rare and Redis may have lost a loaded script.
var (
	//go:embed change.lua
	changeScript string
	//go:embed changes.lua
	changesScript string
)

// versionScript sets the version: 8 bytes that stay until Redis loses its data, then a token. Redis lets
// the script write even if Redis is out of memory, because its first write is DEL.
const versionScript = `
local old = redis.call("MGET", KEYS[1])[1] or ARGV[1]
redis.call("DEL", KEYS[1])
return redis.call("SET", KEYS[1], old:sub(1, 8) .. ARGV[1])`

// part returns the keys of a part of the entries that servers share: a hash of texts and a list of
// changes. Part 0 has the exceptions, in the hash that earlier versions use. The other parts have the
// assigned amounts; in a cluster, they are in different slots.
func (s *Shared) part(part int) []string {
	if part == 0 {
		return []string{s.key("exceptions"), s.key("changes")}
	}
	tag := ":" + strconv.Itoa(part)
	return []string{limiter.SharedKey(s.keyPrefix, tag, "assigned"), limiter.SharedKey(s.keyPrefix, tag, "changes")}
}

// Version returns a text that differs after each change of the entries, or "" if Redis has no version.
func (s *Shared) Version(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.client.Timeout())
	defer cancel()
	found, err := s.client.Current().MGet(ctx, s.key("version")).Result() // MGET, because decisions need the permission for MGET anyway
	if err != nil {
		return "", s.failed(err)
	}
	version, _ := found[0].(string)
	return version, nil
}

// Change changes entries of a part atomically. texts are up to 1000 pairs of an ID and its new text;
// an empty text removes the entry. Change returns the newest change or, if it did nothing, "behind" or "wait". See
// change.lua for these, and for newest, token and again. Change works even if Redis is out of memory.
func (s *Shared) Change(ctx context.Context, part int, newest, token string, again bool, texts [][2]string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.client.Timeout())
	defer cancel()
	args := []any{newest, token, again}
	for _, text := range texts {
		args = append(args, text[0], text[1])
	}
	c := s.client.Current()
	newest, err := c.Eval(ctx, changeScript, s.part(part), args...).Text()
	if err == nil && newest != "behind" && newest != "wait" { // last, so that a server that reads the new version finds the changes
		err = c.Eval(ctx, versionScript, []string{s.key("version")}, token).Err()
	}
	return newest, s.failed(err)
}

// Changes returns the number of texts of a part, or -1 if Redis has nothing of the part, and the changes
// after newest with their texts. If found is false, it returns all changes and no texts; see changes.lua.
func (s *Shared) Changes(ctx context.Context, part int, newest string) (size int, changes, texts []string, found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.client.Timeout())
	defer cancel()
	reply, err := s.client.Current().Eval(ctx, changesScript, s.part(part), newest).Slice()
	if err != nil {
		return 0, nil, nil, false, s.failed(err)
	}
	list := func(reply any) (list []string) {
		for _, element := range reply.([]any) {
			text, _ := element.(string) // "" for a removed entry
			list = append(list, text)
		}
		return list
	}
	return int(reply[0].(int64)) - 1, list(reply[1]), list(reply[2]), reply[3] == int64(1), nil
}

// Scan calls yield with each text of a part, which it reads in pages, so that Redis is not blocked. Texts
// that change during the scan may be outdated or missing. A text may be yielded twice.
func (s *Shared) Scan(ctx context.Context, part int, yield func(id, text string)) error {
	for cursor := uint64(0); ; {
		page, cancel := context.WithTimeout(ctx, s.client.Timeout())
		fields, next, err := s.client.Current().HScan(page, s.part(part)[0], cursor, "", 500).Result()
		cancel()
		if err != nil {
			return s.failed(err)
		}
		for i := 0; i+1 < len(fields); i += 2 {
			yield(fields[i], fields[i+1])
		}
		if cursor = next; next == 0 {
			return nil
		}
	}
}
