-- What the script begins with: the words of its replies, the time, and what is stored of the counters.
--
-- ARGV[3]  nothing, or empty: the time is that of Redis; else the time, in microseconds since the epoch

-- The second integer of a reply, where it is not the state of a counter, which is never negative: each request was
-- decided by itself, see decide.lua; nothing was done, see limits.lua; all were charged together, see together.lua.
local SINGLE, NO_WINDOW, TOGETHER = -1, -2, -3
-- What became of a hit. If it is ALREADY, it is admitted, and its hold was as it wants it.
local ADMITTED, OVER, ALREADY, REFUSED = 0, 1, 2, 3

local tonumber, byte, format = tonumber, string.byte, string.format
local MILLION = 1000000
local call, pcall, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV

-- The integer in 7 bytes of a text from p on.
local function integer(text, p)
  local a, b, c, d, e, f, g = byte(text, p, p + 6)
  return (((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f) * 256 + g
end

-- First of all, so that no counter expires before its time: Redis 7.2 and later count PX from the time that TIME
-- says, which stands still during a script; older ones from when SET runs, which is later.
local now = tonumber(ARGV[3])
if not now then
  local time = call("TIME")
  now = time[1] * MILLION + time[2]
end

local MOST = 5000 -- keys of one MGET, because unpack fails above 7,999 values
local stored = call("MGET", unpack(KEYS, 1, math.min(#KEYS, MOST)))
for first = MOST, #KEYS - 1, MOST do
  for k, text in ipairs(call("MGET", unpack(KEYS, first + 1, math.min(first + MOST, #KEYS)))) do
    stored[first + k] = text
  end
end

-- Stores a text for so many milliseconds, or as long as the one before. Returns the error of Redis if there is one.
local function put(key, text, milliseconds)
  return (milliseconds and pcall("SET", key, text, "PX", milliseconds) or pcall("SET", key, text, "KEEPTTL")).err
end
