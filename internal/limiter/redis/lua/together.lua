-- Charges batches that are not for the straight lane in the same way: each counter once, with the sum of its hits, if
-- all have room, whatever their algorithms are. What it cannot decide it leaves as it was, to decide.lua.
--
-- ARGV[2]  after the limits, see limits.lua, groups of counters, in the order of KEYS, and then a semicolon; of
--          each group three integers:
--            limit   its number
--            sum     of the hits on each counter, 0 if they cannot be summed up: peeks, refunds, hits with a hold,
--                    hits with different limits, and more than 2^40 units
--            count   how many counters it has
-- Reply    integers: the time, and the state of each counter:
--            at * 1000000 + used   if it is short, see state.lua
--            ADMITTED, at, used, prev   otherwise
--
-- A state is stored until it is as good as unused. Anything else that a key holds counts as unused, and is
-- replaced by the first charge. The hits of one key have one kind and period: they are in the key.

local groups_text, requests_text = match(rest, "^([^;]*);(.*)$")

local stored = {}
for i = 1, #KEYS, CHUNK do
  local chunk = call("MGET", unpack(KEYS, i, min(i + CHUNK - 1, #KEYS)))
  for j = 1, #chunk do
    stored[i + j - 1] = chunk[j]
  end
end

-- The state that is stored of a counter, whether it is short, and until when its ban is, nil without one.
local function read(i, limit)
  local text = stored[i]
  if text then
    local at, used, prev, short, banned = parse_state(text, limit)
    if at then
      return at, used, prev, short, banned
    end
  end
  return 0, 0, 0
end

-- An unused state is stored for the least time that there is, rather than deleted: DEL is a permission more.
local function expiry(limit, at, used, prev, banned)
  local left = (used > 0 or prev > 0) and limit.algorithm.left(limit, at, used, prev)
  if banned then
    left = max(left or 0, banned - now)
  end
  return left and max(ceil(left / 1000), 1) + spare or 1
end

-- Writes what a counter was, after something else was written to it.
local function restore(i, limit)
  local at, used, prev, _, banned = read(i, limit)
  pcall("SET", KEYS[i], stored[i] or "0", "PX", expiry(limit, at, used, prev, banned))
end

-- Returns the reply; nothing if it has changed nothing, as where a ban is in force.
local function charge_together()
  -- By counter: its limit, what to write, and until when; false to leave that as it is, nil to increment it.
  local limit_of, texts, expiries = {}, {}, {}
  local reply, replied, last = { now }, 1, 0
  for n, sum_text, count in gmatch(groups_text, "(%d+) (%d+) (%d+) ") do
    local limit, first, sum = limits[tonumber(n)], last + 1, tonumber(sum_text)
    local oldest, newest, roll, admit = limit.oldest, limit.newest, limit.algorithm.roll, limit.algorithm.admit
    last = last + count
    if sum == 0 then
      return
    end
    for i = first, last do
      local at, used, prev, short, banned = read(i, limit)
      if at > newest or banned and limit.ban and banned > now then
        return
      end
      local a, u, p = at, used, prev
      if a < oldest or u == 0 then
        a, u, p = roll(limit, a, u, p)
      end
      u, p = admit(limit, sum, sum, a, u, p)
      if not u then
        return
      end
      limit_of[i] = limit
      if a ~= at or used == 0 or banned or not limit.lasting then
        texts[i], expiries[i] = state_text(a, u, p), expiry(limit, a, u, p)
      elseif short and u < MILLION and increments then
        texts[i] = sum_text
      else
        texts[i], expiries[i] = state_text(a, u, p), false
      end
      if p == 0 and u < MILLION and a < SHORT then
        replied = replied + 1
        reply[replied] = a * MILLION + u
      else
        reply[replied + 1], reply[replied + 2], reply[replied + 3], reply[replied + 4] = ADMITTED, a, u, p
        replied = replied + 4
      end
    end
  end

  for i = 1, last do
    local result
    if expiries[i] then
      result = pcall("SET", KEYS[i], texts[i], "PX", expiries[i])
    elseif expiries[i] == false then
      result = pcall("SET", KEYS[i], texts[i], "KEEPTTL") -- takes Redis half as long
    else
      result = pcall("INCRBY", KEYS[i], texts[i]) -- takes less again
      increments = type(result) == "number"
    end
    if type(result) == "table" and result.err then
      for w = 1, i - 1 do
        if expiries[w] == nil then
          pcall("INCRBY", KEYS[w], "-" .. texts[w])
        else
          restore(w, limit_of[w])
        end
      end
      return
    end
  end
  return reply
end

local charged = together and charge_together()
if charged then
  return charged
end
