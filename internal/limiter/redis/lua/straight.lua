-- The straight lane: decides what nearly all calls are, and makes no function or table that they do not use. What
-- it cannot decide it leaves as it was, to together.lua and decide.lua, which follow in the same script.
--
-- If all hits of a batch fit together, all its requests are admitted, in whatever order they come and whatever
-- the modes of their limits are. So each counter is charged once, with the sum of its hits. Who knows the
-- requests knows what its state was after each of them.
--
-- This lane is for fixed windows whose state is short, see state.lua: the integer at * MILLION + used. The same
-- numbers say for all counters of a limit which of them are of the current window, and which have room. INCRBY
-- charges a counter and returns its state.
--
-- If a counter has no room for all its hits, the requests that have a hit on it are decided first, one after the
-- other, as decide.lua does. The rest is as before: nobody has been answered yet, so that the order is free.
--
-- KEYS     the counters that the batch meets, each once
-- ARGV[1]  empty if some counter of the batch is of another kind, or its limit has bans, else groups, in the order of
--          KEYS; of each group GROUP bytes, which are four integers, cheaper to read than decimal text:
--            7 bytes  the period of the limit
--            3 bytes  its amount, at most MILLION - 1
--            4 bytes  the sum of the hits on each counter
--            2 bytes  how many counters it has
-- ARGV[2]  see limits.lua, together.lua and decide.lua
-- Reply    see decide.lua

local GROUP = 16

local increments = true -- Redis has not refused INCRBY
local together = true   -- all hits may fit together

if ARGV[1] ~= "" and not several then
  local stored, reply, base = call("MGET", unpack(KEYS)), { now, 0 }, 1
  local groups, fit, full, refused = {}, true, nil, nil

  -- Puts the states into stored, 0 for none, and what has no room into full.
  local last = 0
  for p = 1, #ARGV[1], GROUP do
    local p1, p2, p3, p4, p5, p6, p7, a1, a2, a3, s1, s2, s3, s4, c1, c2 = byte(ARGV[1], p, p + GROUP - 1)
    local period = (((((p1 * 256 + p2) * 256 + p3) * 256 + p4) * 256 + p5) * 256 + p6) * 256 + p7
    local amount, sum = (a1 * 256 + a2) * 256 + a3, ((s1 * 256 + s2) * 256 + s3) * 256 + s4
    local first, passed = last + 1, now % period
    local none = (now - passed) / period * MILLION
    last = last + c1 * 256 + c2
    local group = { first = first, last = last, sum = sum, amount = amount, none = none, left = period - passed }
    groups[#groups + 1] = group
    local largest = sum <= amount and none + amount - sum or -1 / 0
    for k = first, last do
      local state = tonumber(stored[k] or 0)
      if not state then
        fit = false
        break
      elseif not (state <= largest) then -- nor is it if it is no number
        full = full or {}
        full[k] = group
      end
      stored[k] = state
    end
    if not fit then
      break
    end
  end

  local charges = nil -- of counters that are not charged the sum of their group
  if fit and full then
    charges, together = {}, false
    local find, max, group_of = string.find, math.max, {}
    for g = 1, #groups do
      for k = groups[g].first, groups[g].last do
        group_of[k] = groups[g]
      end
    end

    -- The requests to decide one after the other: the positions of their first and last hits.
    local text = ARGV[2]
    local firsts, lasts, numbers = {}, {}, {}
    local first, number, single = find(text, ";", find(text, ";", 1, true) + 1, true) + 1, 0, false
    for p = first, #text, HIT do
      local a, b, c, how = byte(text, p, p + 3)
      single = single or full[(a * 256 + b) * 256 + c]
      if how >= LAST then
        if single then
          firsts[#firsts + 1], lasts[#lasts + 1], numbers[#numbers + 1] = first, p, number
        end
        first, number, single = p + HIT, number + 1, false
      end
    end

    reply[2], reply[3], base = SINGLE, #numbers, 3
    local states, over = {}, {}
    for r = 1, #numbers do
      local denied = false
      for p = firsts[r], lasts[r], HIT do
        local a, b, c, how, _, _, _, _, _, d, e, f, g, h = byte(text, p, p + HIT - 1)
        local k, cost = (a * 256 + b) * 256 + c, (((d * 256 + e) * 256 + f) * 256 + g) * 256 + h
        local group = group_of[k]
        local amount, state = group.amount, states[k] or max(stored[k], group.none)
        over[p] = state + cost > group.none + amount
        -- Other modes, states that are not or will not be short, and those from after now are for decide.lua.
        if how % LAST > 0 or over[p] and amount == MILLION - 1 or state >= group.none + MILLION or state % 1 ~= 0 then
          fit = false
          break
        end
        charges[k] = (charges[k] or group.sum) - cost
        denied = denied or over[p]
        states[k] = over[p] and state or state + cost
      end
      if not fit then
        break
      end

      base = base + 1
      reply[base] = numbers[r]
      if denied then
        for p = firsts[r], lasts[r], HIT do
          local a, b, c, _, _, _, _, _, _, d, e, f, g, h = byte(text, p, p + HIT - 1)
          local k = (a * 256 + b) * 256 + c
          states[k] = over[p] and states[k] or states[k] - ((((d * 256 + e) * 256 + f) * 256 + g) * 256 + h)
        end
      end
      for p = firsts[r], lasts[r], HIT do
        local a, b, c = byte(text, p, p + 2)
        local k = (a * 256 + b) * 256 + c
        if over[p] then
          local none = group_of[k].none
          reply[base + 1], reply[base + 2], reply[base + 3], reply[base + 4] = OVER, none / MILLION, states[k] - none, 0
          base = base + 4
        else
          base = base + 1
          reply[base] = states[k]
        end
      end
    end
    for k, state in pairs(states) do
      charges[k] = charges[k] + state - max(stored[k], group_of[k].none)
    end
  end

  for g = 1, fit and #groups or 0 do
    local group = groups[g]
    local none, sum = group.none, group.sum
    local text = sum == 1 and "1" or format("%d", sum)
    for k = group.first, group.last do
      local charge = charges and charges[k] or sum
      if charge == 0 then
        reply[base + k] = math.max(stored[k], none)
      elseif stored[k] > none then
        local state = stored[k] + charge
        if pcall("INCRBY", KEYS[k], charge == sum and text or format("%d", charge)) ~= state then
          increments, refused = false, k
          break
        end
        reply[base + k] = state
      else
        if pcall("SET", KEYS[k], format("%d", none + charge), "PX", math.ceil(group.left / 1000)).err then
          refused = k
          break
        end
        reply[base + k] = none + charge
      end
    end
    if refused then
      break
    end
  end
  if fit and not refused then
    return reply
  end

  -- What was written before a refusal is undone. decide.lua finds out which requests fail.
  together = together and not refused
  for g = 1, refused and #groups or 0 do
    local group = groups[g]
    for k = group.first, math.min(group.last, refused - 1) do
      local charge = charges and charges[k] or group.sum
      if charge > 0 and stored[k] > group.none then
        pcall("INCRBY", KEYS[k], format("%d", -charge))
      elseif charge > 0 then
        pcall("SET", KEYS[k], "0", "PX", 1) -- as good as what was there: nothing, or what had ended
      end
    end
  end
end
