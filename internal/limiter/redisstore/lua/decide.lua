-- Decides a batch of requests in their order, each all or nothing, as limiter.Decide does. The files of
-- the algorithms stand before this one.
--
-- KEYS     the counter of every hit, request after request
-- ARGV[1]  the time of the decision in microseconds since the epoch; empty: the time of Redis
-- ARGV[2]  and each further one: a request, as eight integers for every hit of it:
--            how     mode + 3 * charge
--                    mode: 0 enforced, 1 shadow, 2 quota; charge: 0 if admitted, 1 always, 2 refund
--            cost    units taken or, by a refund, given back; 0 is a peek
--            kind    of the limit's algorithm: 0 fixed window, 1 sliding window, 2 token bucket
--            tick    in which the algorithm counts time, in microseconds
--            four constants of the algorithm, see its function limit; 0 where it has fewer
-- Reply    texts: the time of the decision, and one for every request: what became of its hits, a comma
--          between them, each a ! if the hit is over its limit and the state of its counter after the
--          request; or - and an error, if what it wrote could not be kept
--
-- A state is written "<at> <used>", or "<at> <used> <prev>" where prev is not 0, with the numbers of
-- limiter.State. So it is stored, until it is as good as unused. Anything else that a key holds counts
-- as unused, and is replaced by the first charge. The hits of one key have one kind, tick and period:
-- they are in the key.
--
-- Every number is an integer below 2^53, up to which those of Lua are exact.

local algorithms = { [0] = fixed_window, sliding_window, token_bucket }

local CHUNK = 1024 -- keys per MGET: unpack can return some thousand values only
local HIT = string.rep("(%d+) ", 8)
local EXACT = 2 ^ 53

-- First of all, because Redis reckons PX from the moment at which the script began.
local now = tonumber(ARGV[1])
if not now then
  local time = call("TIME")
  now = time[1] * 1000000 + time[2]
end

local function read_request(text)
  local hits = {}
  for how, cost, kind, tick, a, b, c, d in string.gmatch(text, HIT) do
    how, cost, tick = tonumber(how), tonumber(cost), tonumber(tick)
    local algorithm, t = algorithms[tonumber(kind)], (now - fmod(now, tick)) / tick
    hits[#hits + 1] = {
      mode = how % 3, charge = floor(how / 3), cost = cost, wanted = max(cost, 1),
      algorithm = algorithm, admit = algorithm.admit, tick = tick,
      limit = algorithm.limit(t, tonumber(a), tonumber(b), tonumber(c), tonumber(d)),
    }
  end
  return hits
end

-- Requests that meet the same rules have equal texts. Each text is read once, because reading takes
-- longer than deciding.
local requests, known = {}, {}
for r = 2, #ARGV do
  local text = ARGV[r]
  local request = known[text]
  if not request then
    request = read_request(text)
    known[text] = request
  end
  requests[r - 1] = request
end

local texts = {} -- of the states, as stored
for i = 1, #KEYS, CHUNK do
  local chunk = call("MGET", unpack(KEYS, i, min(i + CHUNK - 1, #KEYS)))
  for j = 1, #chunk do
    texts[i + j - 1] = chunk[j]
  end
end

-- The counters, by the number of the first hit on them: their states, what was stored of these, and the
-- hit that tells how to read them.
local at, used, prev = {}, {}, {}
local used_stored, prev_stored, lives_on = {}, {}, {}
local read_by = {}
local counter_of = {} -- by key

-- Reads the state that a text holds, as of now.
local function read(i, hit)
  local limit, text = hit.limit, texts[i]
  local a, u, p = 0, 0, 0
  if text then
    local x, y, z = match(text, "^(%d+) (%d+)$")
    if not x then
      x, y, z = match(text, "^(%d+) (%d+) (%d+)$")
    end
    if x then
      x, y, z = tonumber(x), tonumber(y), z and tonumber(z) or 0
      if y <= limit.most and z <= limit.most and x * limit.grid * hit.tick < EXACT then
        a, u, p = x, y, z
      end
    end
  end
  local a_stored = a
  a, u, p = hit.algorithm.roll(limit, a, u, p)
  at[i], used[i], prev[i] = a, u, p
  lives_on[i] = u > 0 and a == a_stored and limit.period
  used_stored[i], prev_stored[i] = u, p
  read_by[i] = hit
end

local over, used_before, prev_before, outcomes = {}, {}, {}, {} -- of a request's hits
local reply = { format("%d", now) } -- tostring gives 1.79e+15
local first = 0                     -- hits of earlier requests

for r = 1, #requests do
  local hits = requests[r]
  local denied, quotas, quotas_over = false, 0, 0

  for h = 1, #hits do
    local hit, key = hits[h], KEYS[first + h]
    local limit = hit.limit
    local i = counter_of[key]
    if not i then
      i = first + h
      counter_of[key] = i
      read(i, hit)
    end
    local u, p = used[i], prev[i]
    used_before[h], prev_before[h] = u, p

    over[h] = false
    if hit.charge == 2 then
      used[i], prev[i] = hit.algorithm.give(limit, hit.cost, u, p)
    else
      local u_after, p_after = hit.admit(limit, hit.cost, hit.wanted, at[i], u, p)
      if u_after then
        used[i], prev[i] = u_after, p_after
      else
        over[h] = true
        if hit.charge == 1 then
          used[i], prev[i] = hit.algorithm.take(limit, hit.cost, u, p)
        end
      end
    end

    if hit.mode == 0 then
      denied = denied or over[h]
    elseif hit.mode == 2 then
      quotas = quotas + 1
      if over[h] then
        quotas_over = quotas_over + 1
      end
    end
  end

  if denied or quotas > 0 and quotas == quotas_over then
    for h = #hits, 1, -1 do
      local i = counter_of[KEYS[first + h]]
      used[i], prev[i] = used_before[h], prev_before[h]
    end
    for h = 1, #hits do
      local hit, i = hits[h], counter_of[KEYS[first + h]]
      if hit.charge == 2 then
        used[i], prev[i] = hit.algorithm.give(hit.limit, hit.cost, used[i], prev[i])
      elseif hit.charge == 1 then
        used[i], prev[i] = hit.algorithm.take(hit.limit, hit.cost, used[i], prev[i])
      end
    end
  end

  for h = 1, #hits do
    local i, text = counter_of[KEYS[first + h]]
    if prev[i] == 0 then
      text = format("%d %d", at[i], used[i])
    else
      text = format("%d %d %d", at[i], used[i], prev[i])
    end
    texts[i] = text
    outcomes[h] = over[h] and "!" .. text or text
  end
  reply[r + 1] = concat(outcomes, ",", 1, #hits)
  first = first + #hits
end

local function changed(i)
  return used[i] ~= used_stored[i] or prev[i] ~= prev_stored[i]
end

-- Keeps the state of a counter.
local function write(i)
  local key, hit, u, p = KEYS[i], read_by[i], used[i], prev[i]
  if u == 0 and p == 0 then
    return pcall("DEL", key)
  elseif u > 0 and lives_on[i] then
    return pcall("SET", key, texts[i], "KEEPTTL") -- takes Redis half as long as PX
  end
  local left = (hit.algorithm.expiry(hit.limit, at[i], u, p) - hit.limit.t) * hit.tick - fmod(now, hit.tick)
  return pcall("SET", key, texts[i], "PX", ceil(left / 1000))
end

-- Redis refuses the first write (a replica, or out of memory) or none, so that nothing is half written.
local failure
for i = 1, #KEYS do
  if used[i] and changed(i) then
    local result = write(i)
    if type(result) == "table" and result.err then
      failure = result.err
      break
    end
  end
end

-- Then only requests that would have changed nothing have their answer, such as denials.
if failure then
  first = 0
  for r = 1, #requests do
    for h = 1, #requests[r] do
      if changed(counter_of[KEYS[first + h]]) then
        reply[r + 1] = "-" .. failure
      end
    end
    first = first + #requests[r]
  end
end

return reply
