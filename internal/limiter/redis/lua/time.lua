-- What the script begins with: the time, and the words of its replies.
--
-- ARGV[3]  nothing, or empty: the time is that of Redis; or the time of a caller, in microseconds since the epoch, and if
--          callers have several clocks, a blank and "several"
--
-- A state from after now is left by a clock that then stepped back, and is moved back to now. Not so with
-- several clocks, of which any may be wrong. If each server moved a state back to its own time, each move could
-- admit the whole limit again. There the newest time that a counter has seen holds for it, and counters
-- live spare longer, so that those behind still find what those ahead have seen.

-- The second integer of a reply, where it is not the state of a counter, which is never negative:
local SINGLE = -1    -- each request was decided by itself, see decide.lua
local TOGETHER = -3  -- all were charged together, see together.lua
local NO_WINDOW = -2 -- nothing was done, see calendar.lua
-- What became of a hit:
local ADMITTED, OVER = 0, 1
local ALREADY = 2 -- admitted, and its hold was as the hit wants it
local REFUSED = 3 -- Redis refused the writes of its request

local tonumber, unpack, byte, format = tonumber, unpack, string.byte, string.format
local MILLION = 1000000
local call, pcall, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV

-- The integer in 7 bytes of a text from p on.
local function integer(text, p)
  local a, b, c, d, e, f, g = byte(text, p, p + 6)
  return (((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f) * 256 + g
end

-- First of all, so that no counter expires before its time: Redis 7.2 and later count PX from the time that TIME
-- says, which stands still during a script; older ones from when SET runs, which is later.
local now, several
if ARGV[3] and ARGV[3] ~= "" then
  now, several = string.match(ARGV[3], "^(%d+) ?(%l*)$")
  now, several = tonumber(now), several ~= ""
else
  local time = call("TIME")
  now, several = time[1] * MILLION + time[2], false
end
local spare = several and 60000 or 0 -- milliseconds

-- What is stored of the counters.
local stored, CHUNK = nil, 1024 -- unpack can return some thousand values only
for i = 1, #KEYS, CHUNK do
  local chunk = call("MGET", unpack(KEYS, i, math.min(i + CHUNK - 1, #KEYS)))
  stored = stored or chunk
  for j = 1, i > 1 and #chunk or 0 do
    stored[i + j - 1] = chunk[j]
  end
end

