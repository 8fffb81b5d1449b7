-- The straight path, which nearly all calls take: if all hits of a batch fit together, all its requests are admitted,
-- whatever their order and the modes of their limits, as limiter.Decide would admit them. So each counter is charged once,
-- with the sum of its hits. This file is for fixed windows with short states at * MILLION + used, see state.lua. together.lua
-- and decide.lua handle all other batches. Two numbers serve all counters of a group: a state above "none" is in the current
-- window, and a state of at most "most" has room. INCRBY charges a counter that exists.
-- Reads KEYS, ARGV, pcall, tonumber, byte, format, integer, now, stored, put, MILLION. Sets GROUP, write_all, reply.
-- KEYS     the counters of the batch, each once
-- ARGV[1]  empty if the batch must be decided by decide.lua, else groups of counters in the order of KEYS; for each group
--          GROUP bytes, four binary integers, which are faster to read than decimal text:
--            7 bytes  the period of the limit, or 0 if the batch is for together.lua
--            3 bytes  the amount of the limit, at most MILLION - 1; for together.lua, the number of the limit
--            4 bytes  the sum of the costs of the hits on each counter
--            2 bytes  the number of counters
-- Reply    integers: the time, and the short state of each counter

local GROUP = 16

-- Returns the reply, new texts of some counters, their expiries, and increments of the others, or nil if not all hits fit.
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

-- Returns the reply, or nothing if Redis refuses the first write; then decide.lua finds out which requests need a write.
-- INCRBY, or SET with KEEPTTL, takes Redis half as long as SET with an expiry.
local function write_all(reply, texts, lasts, sums)
  for k = 1, reply and #KEYS or 0 do
    -- INCRBY fails if the user lacks the permission, or on a number with leading zeros.
    if not (sums and sums[k] and pcall("INCRBY", KEYS[k], sums[k]) == reply[k + 1]) then
      local failure = put(KEYS[k], texts[k] or format("%d", reply[k + 1]), lasts[k])
      if failure then
        return k > 1 and { err = failure } or nil
      end
    end
  end
  return reply
end

local reply = ARGV[1] ~= "" and integer(ARGV[1], 1) > 0 and write_all(charged_straight())
if reply then
  return reply
end
