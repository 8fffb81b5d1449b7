-- Asks all servers for reports.
--
-- KEYS[1]  as in poll.lua
-- ARGV     for how long reports are wanted, since when a server has been there that counts, and since when one that
--          is not forgotten, in milliseconds
-- Reply    the names of the servers that are there

local key, time = KEYS[1], redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call("HDEL", key, ".") -- as in poll.lua
redis.call("HSET", key, ".wanted", now + ARGV[1])
local servers, all = {}, redis.call("HGETALL", key)
for i = 1, #all, 2 do
  local seen = tonumber(all[i + 1])
  if string.sub(all[i], 1, 1) == "." then
    -- no server
  elseif not seen or seen < now - ARGV[3] then
    redis.call("HDEL", key, all[i])
  elseif seen >= now - ARGV[2] then
    servers[#servers + 1] = all[i]
  end
end
return servers
