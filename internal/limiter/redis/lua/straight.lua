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

-- Returns what each counter is to be charged, and the numbers of their states; nothing if one has no room.
local function groups_of()
  local groups, numbers, last = {}, {}, 0
  for p = 1, #ARGV[1], GROUP do
    local period, a1, a2, a3, s1, s2, s3, s4, c1, c2 = integer(ARGV[1], p), byte(ARGV[1], p + 7, p + GROUP - 1)
    local amount, sum = (a1 * 256 + a2) * 256 + a3, ((s1 * 256 + s2) * 256 + s3) * 256 + s4
    local first, passed = last + 1, now % period
    local none = (now - passed) / period * MILLION -- the state of an unused counter
    last = last + c1 * 256 + c2
    for k = first, last do
      local state = tonumber(stored[k] or 0)
      if sum > amount or not (state and state <= none + amount - sum) then
        return
      end
      numbers[k] = state
    end
    groups[#groups + 1] = { first = first, last = last, sum = sum, none = none, left = period - passed }
  end
  return groups, numbers
end

local groups, numbers
if ARGV[1] ~= "" and not several and integer(ARGV[1], 1) > 0 then
  groups, numbers = groups_of()
end
if groups then
  local reply, increments, failed = { now }, true, false
  for g = 1, #groups do
    local group = groups[g]
    local none, sum = group.none, group.sum
    local text = format("%d", sum)
    for k = group.first, failed and 0 or group.last do
      local state, result = numbers[k] + sum, nil
      if numbers[k] > none then
        result = increments and pcall("INCRBY", KEYS[k], text)
        if result ~= state then -- a user may lack the permission
          result, increments = pcall("SET", KEYS[k], format("%d", state), "KEEPTTL"), false
        end
      else
        state = none + sum
        result = pcall("SET", KEYS[k], format("%d", state), "PX", math.ceil(group.left / 1000))
      end
      if result ~= state and result.err then
        if k > 1 then
          return result
        end
        failed = true -- nothing is written: decide.lua finds out which requests need it
        break
      end
      reply[k + 1] = state
    end
  end
  if not failed then
    return reply
  end
end

