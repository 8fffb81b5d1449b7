-- Sets a server's share of a bucket, so that the shares of all servers together fit in the bucket.
-- KEYS[1]  a hash: for each server "tokens until demands"; until is the end of the share in ms since the epoch
-- KEYS[2]  the time in ms at which this Redis first stored shares
-- ARGV     server, size of the bucket, tokens that stay charged, tokens wanted, time in ms for which
--          the share is charged, demands
-- reply    the tokens of the share, then the demands of each other server
local server, lasts = ARGV[1], tonumber(ARGV[5])
local size, held, wanted = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)

redis.call("SET", KEYS[2], string.format("%d", now), "NX")
local since = now - tonumber(redis.call("GET", KEYS[2]))
if since >= 0 and since < lasts then
  wanted = held -- Redis may have lost shares that are still in use
end

local others, reply = 0, {}
local fields = redis.call("HGETALL", KEYS[1])
for i = 1, #fields, 2 do
  if fields[i] ~= server then
    local tokens, till, demands = string.match(fields[i + 1], "^(%d+) (%d+) (.*)$")
    if tonumber(till) <= now then
      redis.call("HDEL", KEYS[1], fields[i])
    else
      others = others + tonumber(tokens)
      reply[#reply + 1] = demands
    end
  end
end

-- Held tokens stay charged even if the limit was lowered.
local share = math.max(held, math.min(wanted, size - others))
redis.call("HSET", KEYS[1], server, string.format("%d %d %s", share, now + lasts, ARGV[6]))
redis.call("PEXPIRE", KEYS[1], lasts)
table.insert(reply, 1, string.format("%d", share))
return reply
