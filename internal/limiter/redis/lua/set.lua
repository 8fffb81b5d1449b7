-- Changes fields of a hash that servers share.
-- KEYS[1]  the hash, with .epoch and .count: how often it was changed since it began, empty, with that epoch
-- ARGV     the epoch if it begins now; of each field its name and its text, "" to remove it
-- Reply    how many of the fields were there

local key, there, set = KEYS[1], 0, 0
for i = 2, #ARGV, 2 do
  -- First of all: a Redis that is full lets a script that has written write on.
  there = there + redis.call("HDEL", key, ARGV[i])
  if ARGV[i + 1] ~= "" then
    redis.call("HSET", key, ARGV[i], ARGV[i + 1])
    set = set + 1
  end
end
if there + set > 0 then
  local version = redis.call("HMGET", key, ".epoch", ".count")
  redis.call("HSET", key, ".epoch", version[1] or ARGV[1], ".count", (tonumber(version[2]) or 0) + 1)
end
return there
