-- The start of the script: the codes in its replies, the time, and the stored texts of the counters.
-- ARGV[3]  the time in microseconds since the epoch; if empty or missing, the time of Redis
-- Sets SINGLE, NO_WINDOW, TOGETHER, ADMITTED, OVER, ALREADY, REFUSED, SETTLED, call, pcall, KEYS, ARGV, tonumber, byte, format,
-- integer, MILLION, now, stored, put.

-- The second integer of a reply. SINGLE: requests were decided one by one, see decide.lua. NO_WINDOW: nothing was done, see
-- limits.lua. TOGETHER: all hits were charged together, see together.lua. If not negative, it is a state, see straight.lua.
local SINGLE, NO_WINDOW, TOGETHER = -1, -2, -3
-- The result of a hit. ALREADY means that the hit is admitted but changed nothing: its hold was already taken or, for a
-- refund, was not taken, or its reservation is unknown. SETTLED is added to the units of the settled reservation.
local ADMITTED, OVER, ALREADY, REFUSED, SETTLED = 0, 1, 2, 3, 4

local tonumber, byte, format = tonumber, string.byte, string.format
local MILLION = 1000000
local call, pcall, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV

-- Returns the integer in the 7 bytes of text that start at p.
local function integer(text, p)
  local a, b, c, d, e, f, g = byte(text, p, p + 6)
  return (((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f) * 256 + g
end

-- TIME goes first, so that no counter expires too early: since Redis 7.2, PX counts from the time that TIME returns, which
-- stands still during a script; in earlier versions, PX counts from the later time of SET.
local now = tonumber(ARGV[3])
if not now then
  local time = call("TIME")
  now = time[1] * MILLION + time[2]
end

local MOST = 5000 -- maximum number of keys in one MGET, because unpack fails above 7,999 values
local stored = call("MGET", unpack(KEYS, 1, math.min(#KEYS, MOST)))
for first = MOST, #KEYS - 1, MOST do
  for k, text in ipairs(call("MGET", unpack(KEYS, first + 1, math.min(first + MOST, #KEYS)))) do
    stored[first + k] = text
  end
end

-- Stores a text, which expires after milliseconds or, if nil, when the old text would. Returns Redis' error or nil.
local function put(key, text, milliseconds)
  return (milliseconds and pcall("SET", key, text, "PX", milliseconds) or pcall("SET", key, text, "KEEPTTL")).err
end
