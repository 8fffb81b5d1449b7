-- What the script begins with: the time, and the words of its replies.
--
-- ARGV[3]  nothing, or empty: the time is that of Redis; or the time of a caller, in microseconds since the epoch, and if
--          callers have several clocks, a blank and "several"
--
-- A state from after now is left by a clock that then stepped back, and is brought back to now. Not so with
-- several clocks, of which any may be wrong: to bring back what one of them says for another one, and on again,
-- would admit a limit each time. There the newest time that a counter has seen holds for it, and counters
-- live spare longer, so that those behind still find what those ahead have seen.

-- Numbers of a reply are never negative, so that words are. Of a counter, if not its short state (see state.lua):
local ADMITTED, OVER = -1, -2 -- its state follows, in three numbers
local ALREADY = -6            -- as ADMITTED, and its hold was as the hit wants it
local BANNED = -5             -- until when it is banned follows, and then what else is said of it
-- Behind the time, before all counters:
local SINGLE = -3             -- each request was decided by itself, see decide.lua
local NO_WINDOW = -7          -- nothing was done, see calendar_window.lua
-- For all counters of a request:
local REFUSED = -4            -- Redis refused its writes

local tonumber, unpack, byte, format = tonumber, unpack, string.byte, string.format
local MILLION = 1000000
local call, pcall, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV

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

