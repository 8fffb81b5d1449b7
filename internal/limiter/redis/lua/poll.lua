-- Says that a server is there, and asks whether anything is wanted of it.
--
-- KEYS[1]  the hash of the servers: when each was there last, by its name; .reset, which changes when counters are
--          reset; .wanted, until when reports are wanted. All times are in milliseconds since the epoch.
-- ARGV     the name of the server, for how long the hash lives without servers
-- Reply    .reset, "" if there is none; 1 if reports are wanted, else 0

local key, time = KEYS[1], redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call("HDEL", key, ".") -- a Redis that is full lets a script that has written write on
redis.call("HSET", key, ARGV[1], now)
redis.call("PEXPIRE", key, ARGV[2])
local said = redis.call("HMGET", key, ".reset", ".wanted")
return { said[1] or "", (tonumber(said[2]) or 0) > now and 1 or 0 }
