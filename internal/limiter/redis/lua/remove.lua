-- Removes a record from those of board.go.
--
-- KEYS[1]  as in add.lua
-- ARGV[1]  its ID
-- Reply    how many there were: 1 or 0

local removed = redis.call("HDEL", KEYS[1], ARGV[1])
if removed == 1 then -- a Redis that is full lets a script that has written write on
  redis.call("HINCRBY", KEYS[1], ".count", 1)
end
return removed
