-- The straight way, which nearly all calls go: if all hits of a batch fit together, all its requests are admitted, in
-- whatever order they come and whatever the modes of their limits are (limiter.Decide of each says the same). So
-- each counter is charged once, with the sum of its hits. What is not so is left to decide.lua.
--
-- It is for fixed windows of short states, see state.lua: the integer at * MILLION + used. The same numbers say for all
-- counters of a limit which of them are of the current window, and which have room. INCRBY charges a counter.
--
-- KEYS     the counters that the batch meets, each once
-- ARGV[1]  empty if a batch is not for this way, else groups of counters, in the order of KEYS; of each group GROUP
--          bytes, which are four integers, cheaper to read than decimal text:
--            7 bytes  the period of the limit; 0 if the batch is for together.lua
--            3 bytes  its amount, at most MILLION - 1; in together.lua the number of the limit
--            4 bytes  the sum of the hits on each counter
--            2 bytes  how many counters it has
-- Reply    integers: the time, and the short state of each counter

local GROUP = 16

-- Returns the reply, the texts of the counters, for how long to store them, and by what to increment the others.
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

-- Returns the reply, or nothing if Redis refuses the first write: then decide.lua finds out which requests need it.
-- INCRBY, or SET that keeps when a key expires, takes Redis half as long.
local function store(reply, texts, lasts, sums)
  for k = 1, reply and #KEYS or 0 do
    -- A user may lack the permission, and a number be spelled so that Redis does not increment it.
    if not (sums and sums[k] and pcall("INCRBY", KEYS[k], sums[k]) == reply[k + 1]) then
      local failure = put(KEYS[k], texts[k] or format("%d", reply[k + 1]), lasts[k])
      if failure then
        return k > 1 and { err = failure } or nil
      end
    end
  end
  return reply
end

local reply = ARGV[1] ~= "" and integer(ARGV[1], 1) > 0 and store(charged_straight())
if reply then
  return reply
end
