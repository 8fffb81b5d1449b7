-- Has all servers forget which counters are over.
--
-- KEYS[1]  as in poll.lua
-- ARGV[1]  the new .reset, which never was there before; for how long the hash lives without servers

redis.call("HDEL", KEYS[1], ".reset") -- as in poll.lua
redis.call("HSET", KEYS[1], ".reset", ARGV[1])
redis.call("PEXPIRE", KEYS[1], ARGV[2])
