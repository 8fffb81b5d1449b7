-- The straight lane: decides what nearly all calls are, and makes no function or table that they do not use. What
-- it cannot decide it leaves as it was, to together.lua and decide.lua, which follow in the same script.
--
-- If all hits of a batch fit together, all its requests are admitted, in whatever order they come and whatever
-- the modes of their limits are. So each counter is charged once, with the sum of its hits. Who knows the
-- requests can tell what its state was after each of them.
--
-- This lane is for fixed windows whose state is short, see state.lua: the integer at * MILLION + used. The same
-- numbers tell for all counters of a limit which of them are of the current window, and which have room; INCRBY
-- charges a counter and returns its state.
--
-- If a counter has no room for all its hits, the requests that have a hit on it are decided first, one after the
-- other, as decide.lua does. The rest is as before: nobody has been answered yet, so that the order is free.
--
-- KEYS     the counters that the batch meets, each once
-- ARGV[1]  empty if some counter of the batch is of another kind, else groups of counters, in the order of
--          KEYS; of each group four integers:
--            the period of the limit
--            its amount, at most MILLION - 1
--            the sum of the hits on each counter
--            how many counters it has
-- ARGV[2]  see limits.lua, together.lua and decide.lua
-- Reply    see decide.lua

local SINGLE, OVER = -3, -2

local increments = true -- Redis has not refused INCRBY
local together = true   -- all hits may fit together

if ARGV[1] ~= "" and not several then
  local stored, reply, base = call("MGET", unpack(KEYS)), { now }, 1
  local groups, fit, full, refused = {}, true, nil, nil

  -- Puts the states into stored, 0 for none, and what has no room into full.
  local position, last = 1, 0
  while fit and last < #KEYS do
    local period, amount, sum, count, after = match(ARGV[1], "^(%d+) (%d+) (%d+) (%d+) ()", position)
    local window = (now - now % period) / period
    local group = {
      first = last + 1, last = last + count, sum = sum, amount = tonumber(amount),
      none = window * MILLION, left = (window + 1) * period - now,
    }
    groups[#groups + 1], position, last = group, after, group.last
    local largest = amount - sum < 0 and -1 / 0 or group.none + amount - sum
    for k = group.first, last do
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
  end

  local charges = nil -- of counters that are not charged the sum of their group
  if fit and full then
    charges, together = {}, false
    local group_of = {}
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
        charges[k] = (charges[k] or tonumber(group.sum)) - cost
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
    local none, text, sum = group.none, group.sum, tonumber(group.sum)
    for k = group.first, group.last do
      local charge = charges and charges[k] or sum
      if charge == 0 then
        reply[base + k] = max(stored[k], none)
      elseif stored[k] > none then
        local state = stored[k] + charge
        if pcall("INCRBY", KEYS[k], charge == sum and text or format("%d", charge)) ~= state then
          increments, refused = false, k
          break
        end
        reply[base + k] = state
      else
        if pcall("SET", KEYS[k], format("%d", none + charge), "PX", ceil(group.left / 1000)).err then
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
    for k = group.first, min(group.last, refused - 1) do
      local charge = charges and charges[k] or tonumber(group.sum)
      if charge > 0 and stored[k] > group.none then
        pcall("INCRBY", KEYS[k], format("%d", -charge))
      elseif charge > 0 then
        pcall("SET", KEYS[k], "0", "PX", 1) -- as good as what was there: nothing, or what had ended
      end
    end
  end
end
