-- The smallest script that decides: it reads all counters, compares and increments them. It has no time and no limits.
local call, tonumber = redis.call, tonumber
local stored, reply, keys = call("MGET", unpack(KEYS)), {}, KEYS
for i = 1, #keys do
  local n = tonumber(stored[i] or 0)
  if n < 1e15 then
    reply[i] = call("INCRBY", keys[i], "1")
  else
    reply[i] = -1
  end
end
return reply
