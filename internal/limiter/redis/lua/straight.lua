-- The straight way, which nearly all calls go: if all hits of a batch fit together, all its requests are admitted, in
-- whatever order they come and whatever the modes of their limits are (limiter.Decide of each says the same). So
-- each counter is charged once, with the sum of its hits. Who knows the requests knows its state after each.
--
-- It is for fixed windows of short states, see state.lua: the integer at * MILLION + used. The same numbers say for all
-- counters of a limit which of them are of the current window, and which have room. INCRBY charges a counter
-- and returns its state. What is not so is left as it was, to decide.lua, which follows in the same script.
--
-- KEYS     the counters that the batch meets, each once
-- ARGV[1]  empty if a batch is not for this way, else groups of counters, in the order of KEYS; of each group GROUP
--          bytes, which are four integers, cheaper to read than decimal text:
--            7 bytes  the period of the limit
--            3 bytes  its amount, at most MILLION - 1
--            4 bytes  the sum of the hits on each counter
--            2 bytes  how many counters it has
-- Reply    integers: the time, and the short state of each counter

local GROUP = 16

-- Returns the reply; the texts of the counters, and for how long to store them; and by what to increment the others.
-- Returns nothing if a counter has no room.
local function charged_straight()
  local reply, texts, lasts, sums, last = { now }, {}, {}, {}, 0
  for p = 1, #ARGV[1], GROUP do
    local period, a1, a2, a3, s1, s2, s3, s4, c1, c2 = integer(ARGV[1], p), byte(ARGV[1], p + 7, p + GROUP - 1)
    local amount, sum = (a1 * 256 + a2) * 256 + a3, ((s1 * 256 + s2) * 256 + s3) * 256 + s4
    local first, passed = last + 1, now % period
    local none = (now - passed) / period * MILLION -- the state of an unused counter
    local most, left, sum_text = none + amount - sum, math.ceil((period - passed) / 1000), format("%d", sum)
    last = last + c1 * 256 + c2
    for k = first, last do
      local state = tonumber(stored[k] or 0)
      if sum > amount or not (state and state <= most) then
        return
      elseif state > none then
        sums[k], reply[k + 1] = sum_text, state + sum
      else
        texts[k], lasts[k], reply[k + 1] = format("%d", none + sum), left, none + sum
      end
    end
  end
  return reply, texts, lasts, sums
end

-- Stores what a straight way has found, and returns the reply; nothing if Redis refuses the first write: then it is for
-- decide.lua to find out which requests need it. INCRBY, or SET that keeps when a key expires, takes Redis half as long.
local function store(reply, texts, lasts, sums)
  for k = 1, reply and #KEYS or 0 do
    local key, state = KEYS[k], reply[k + 1]
    local done = sums and sums[k] and pcall("INCRBY", key, sums[k]) == state
    if not done then
      sums = lasts[k] and sums -- a user may lack the permission
      local text = texts[k] or format("%d", state)
      local result = lasts[k] and pcall("SET", key, text, "PX", lasts[k]) or pcall("SET", key, text, "KEEPTTL")
      if result.err then
        return k > 1 and result or nil
      end
    end
  end
  return reply
end

if ARGV[1] ~= "" and not several and integer(ARGV[1], 1) > 0 then
  local reply = store(charged_straight())
  if reply then
    return reply
  end
end

