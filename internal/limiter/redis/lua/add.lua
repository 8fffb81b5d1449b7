-- Adds a record to those of board.go, or replaces one.
--
-- KEYS[1]  the hash of the records: of each its body by its ID, and beside them .epoch and .count, their version
-- ARGV     ID, body, the most records there may be, 0 for any number; the epoch of a hash that is not there yet
-- Reply    1, or 0 if there are as many records as there may be

local key, most = KEYS[1], tonumber(ARGV[3])
if most > 0 and redis.call("HEXISTS", key, ARGV[1]) == 0 and redis.call("HLEN", key) - 2 >= most then
  return 0
end
local version = redis.call("HMGET", key, ".epoch", ".count")
-- In one command, of which Redis does all or nothing.
redis.call("HSET", key, ARGV[1], ARGV[2], ".epoch", version[1] or ARGV[4], ".count", (tonumber(version[2]) or 0) + 1)
return 1
