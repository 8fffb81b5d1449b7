-- Decides a batch of requests in their order, each all or nothing, as limiter.Decide does. The files of
-- the algorithms stand before this one.
--
-- KEYS     the counter of every hit, request after request
-- ARGV[1]  the time of the decision in microseconds since the epoch; empty: the time of Redis
-- ARGV[2]  and each further one: a request, as eight integers for every hit of it:
--            how     mode + 3 * charge
--                    mode: 0 enforced, 1 shadow, 2 quota; charge: 0 if admitted, 1 always, 2 refund
--            cost    units taken or, by a refund, given back; 0 is a peek
--            kind    of the limit's algorithm: 0 fixed window, 1 fixed window from the first hit,
--                    2 sliding window, 3 token bucket
--            tick    in which the algorithm counts time, in microseconds
--            four constants of the algorithm, in the order of its list; 0 where it has fewer
-- Reply    integers: the time of the decision, and for every hit
--            1 if it is over its limit, else 0
--            at, used and prev of its counter after its request, as in limiter.State
--
-- A counter is stored as its state, "<at> <used>" or "<at> <used> <prev>", and expires when that is as
-- good as unused. Anything else that a key holds counts as unused, and is replaced by the first charge.
-- The hits of one key have one kind, tick and period: they are in the key.
--
-- Every number is an integer below 2^53, up to which those of Lua are exact.

local algorithms = { [0] = fixed_window, first_hit_window, sliding_window, token_bucket }

local CHUNK = 1024 -- keys per MGET: unpack can return some thousand values only
local HIT = string.rep("(%d+) ", 8)

local now = tonumber(ARGV[1])
if not now then
  local time = redis.call("TIME")
  now = time[1] * 1000000 + time[2]
end

local function read_request(text)
  local hits = {}
  for how, cost, kind, tick, a, b, c, d in string.gmatch(text, HIT) do
    local algorithm = algorithms[tonumber(kind)]
    how, tick = tonumber(how), tonumber(tick)
    local hit = {
      mode = how % 3, charge = floor(how / 3), cost = tonumber(cost),
      algorithm = algorithm, tick = tick, t = (now - fmod(now, tick)) / tick,
    }
    for i, constant in ipairs({ a, b, c, d }) do
      hit[algorithm.constants[i] or i] = tonumber(constant)
    end
    hits[#hits + 1] = hit
  end
  return hits
end

-- Requests that meet the same rules have equal texts. Each text is read once, because reading takes
-- longer than deciding.
local requests, known = {}, {}
for r = 2, #ARGV do
  local text = ARGV[r]
  known[text] = known[text] or read_request(text)
  requests[r - 1] = known[text]
end

local texts = {}
for i = 1, #KEYS, CHUNK do
  local chunk = redis.call("MGET", unpack(KEYS, i, min(i + CHUNK - 1, #KEYS)))
  for j = 1, #chunk do
    texts[i + j - 1] = chunk[j]
  end
end

-- The state that a text holds, as of now. The hit tells how to read it.
local function read_state(text, hit)
  local state = { at = 0, used = 0, prev = 0, hit = hit }
  if text then
    local at, used, prev = string.match(text, "^(%d+) (%d+) ?(%d*)$")
    if at then
      state.at, state.used, state.prev = tonumber(at), tonumber(used), tonumber(prev) or 0
      local most = hit.most or 2 ^ 53
      if state.used > most or state.prev > most or hit.algorithm.expiry(state, hit) * hit.tick >= 2 ^ 53 then
        state.at, state.used, state.prev = 0, 0, 0
      end
    end
  end
  hit.algorithm.roll(state, hit, hit.t)
  state.stored_at, state.stored_used = state.at, state.used
  return state
end

local states = {} -- by key: hits of one key share one
local at_before, used_before = {}, {}
local reply = { now }
local first = 0 -- hits of earlier requests

for r = 1, #requests do
  local hits = requests[r]
  local denied, quotas, quotas_over = false, 0, 0

  for h = 1, #hits do
    local hit, key = hits[h], KEYS[first + h]
    local state = states[key]
    if not state then
      state = read_state(texts[first + h], hit)
      states[key] = state
    end
    at_before[h], used_before[h] = state.at, state.used

    local algorithm, over = hit.algorithm, 0
    if hit.charge == 2 then
      algorithm.give(state, hit, hit.t, hit.cost)
    else
      if not algorithm.fits(state, hit, hit.t, max(hit.cost, 1)) then
        over = 1
      end
      if over == 0 or hit.charge == 1 then
        algorithm.take(state, hit, hit.t, hit.cost)
      end
    end
    reply[4 * (first + h) - 2] = over

    if hit.mode == 0 then
      denied = denied or over == 1
    elseif hit.mode == 2 then
      quotas, quotas_over = quotas + 1, quotas_over + over
    end
  end

  if denied or quotas > 0 and quotas == quotas_over then
    for h = #hits, 1, -1 do
      local state = states[KEYS[first + h]]
      state.at, state.used = at_before[h], used_before[h]
    end
    for h = 1, #hits do
      local hit = hits[h]
      if hit.charge == 2 then
        hit.algorithm.give(states[KEYS[first + h]], hit, hit.t, hit.cost)
      elseif hit.charge == 1 then
        hit.algorithm.take(states[KEYS[first + h]], hit, hit.t, hit.cost)
      end
    end
  end

  for h = 1, #hits do
    local state, n = states[KEYS[first + h]], 4 * (first + h)
    reply[n - 1], reply[n], reply[n + 1] = state.at, state.used, state.prev
  end
  first = first + #hits
end

-- %.0f: %d is 32 bits wide in some builds of Lua, and tostring gives 1.79e+15.
for key, state in pairs(states) do
  if state.at ~= state.stored_at or state.used ~= state.stored_used then
    local hit = state.hit
    local left = ceil((hit.algorithm.expiry(state, hit) * hit.tick - now) / 1000)
    if left <= 0 then
      redis.call("DEL", key)
    elseif state.prev == 0 then
      redis.call("SET", key, string.format("%.0f %.0f", state.at, state.used), "PX", left)
    else
      redis.call("SET", key, string.format("%.0f %.0f %.0f", state.at, state.used, state.prev), "PX", left)
    end
  end
end

return reply
