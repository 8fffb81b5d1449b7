-- Adds those of some records that are missing in those of board.go.
--
-- KEYS[1]  as in add.lua
-- ARGV     the epoch of a hash that is not there yet; of each record its ID and its body
-- Reply    how many were missing

local key, missing = KEYS[1], {}
for i = 2, #ARGV, 2 do
  if redis.call("HEXISTS", key, ARGV[i]) == 0 then
    missing[#missing + 1] = ARGV[i]
    missing[#missing + 1] = ARGV[i + 1]
  end
end
if #missing > 0 then
  local version = redis.call("HMGET", key, ".epoch", ".count")
  redis.call("HSET", key, ".epoch", version[1] or ARGV[1], ".count", (tonumber(version[2]) or 0) + 1, unpack(missing))
end
return #missing / 2
