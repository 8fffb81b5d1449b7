-- Decides a batch of requests in their order, each all or nothing, as limiter.Decide does. The files of
-- the algorithms stand before this one.
--
-- KEYS     the counter of every hit, request after request
-- ARGV[1]  the time of the decision in microseconds since the epoch; empty: the time of Redis
-- ARGV[2]  and each further one: a request, as seven integers for every hit of it:
--            how     mode + 3 * charge
--                    mode: 0 enforced, 1 shadow, 2 quota; charge: 0 if admitted, 1 always, 2 refund
--            cost    units taken or, by a refund, given back; 0 is a peek
--            kind    of the limit's algorithm: 0 fixed window, 1 sliding window, 2 token bucket
--            four constants of the algorithm, see its function limit; 0 where it has fewer
-- Reply    texts: the time of the decision, and one for every request: what became of its hits, a comma
--          between them, each a ! if the hit is over its limit and the state of its counter after the
--          request; or - and an error, if what it wrote could not be kept
--
-- A state is stored until it is as good as unused. Anything else that a key holds counts as unused, and is
-- replaced by the first charge. The hits of one key have one kind and period: they are in the key.
--
-- Every number is an integer below 2^53, up to which those of Lua are exact.

local algorithms = { [0] = fixed_window, sliding_window, token_bucket }

local CHUNK = 1024 -- keys per MGET: unpack can return some thousand values only
local HIT = string.rep("(%d+) ", 7)

-- First of all, because Redis reckons PX from the moment at which the script began.
local now = tonumber(ARGV[1])
if not now then
  local time = call("TIME")
  now = time[1] * 1000000 + time[2]
end

local function read_request(text)
  local hits = {}
  for how, cost, kind, a, b, c, d in string.gmatch(text, HIT) do
    how, cost = tonumber(how), tonumber(cost)
    local algorithm = algorithms[tonumber(kind)]
    hits[#hits + 1] = {
      mode = how % 3, refund = how >= 6, always = how >= 3, unconditional = how >= 3 and cost > 0,
      cost = cost, wanted = max(cost, 1),
      roll = algorithm.roll, admit = algorithm.admit, take = algorithm.take, give = algorithm.give,
      left = algorithm.left,
      limit = algorithm.limit(now, tonumber(a), tonumber(b), tonumber(c), tonumber(d)),
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

local stored = {}
for i = 1, #KEYS, CHUNK do
  local chunk = call("MGET", unpack(KEYS, i, min(i + CHUNK - 1, #KEYS)))
  for j = 1, #chunk do
    stored[i + j - 1] = chunk[j]
  end
end

-- The counters, by the number of the first hit on them.
local counter_of = {}             -- by key
local at, used, prev = {}, {}, {} -- their states, as they were written last
local changed = {}                -- the hit that changed the state last, within the request
local writer = {}                 -- the same, of all requests
local texts = {}                  -- the states as texts, once they were needed
local lives_on = {}               -- the at with which the state, if it is used, expires when it did before

-- Reads a counter. limit tells which states are possible, with any amount.
local function read(i, limit)
  local text = stored[i]
  at[i], used[i], prev[i] = 0, 0, 0
  if not text then
    return
  end
  local a, u, p = parse_state(text)
  if a and u <= limit.most and p <= limit.most_prev and a * limit.grid < EXACT then
    at[i], used[i], prev[i] = a, u, p
    lives_on[i] = limit.lasting and u > 0 and a
  end
end

local over, outcomes = {}, {}                          -- of a request's hits: whether it is over, what is replied
local at_before, used_before, prev_before = {}, {}, {} -- the state of its counter before
local reply = { format("%d", now) }
local first = 0                                        -- hits of earlier requests

for r = 1, #requests do
  local hits = requests[r]
  local denied, quotas, quotas_over = false, 0, 0

  for h = 1, #hits do
    local hit, key = hits[h], KEYS[first + h]
    local i, limit, cost = counter_of[key], hit.limit, hit.cost
    if not i then
      i = first + h
      counter_of[key] = i
      read(i, limit)
    end
    local a, u, p = at[i], used[i], prev[i]
    at_before[h], used_before[h], prev_before[h] = a, u, p
    if a < limit.oldest or u == 0 then
      a, u, p = hit.roll(limit, a, u, p)
    end

    local u_after, p_after
    over[h] = false
    if hit.refund then
      u_after, p_after = hit.give(limit, cost, u, p)
    else
      u_after, p_after = hit.admit(limit, cost, hit.wanted, a, u, p)
      if not u_after then
        over[h] = true
        if hit.always then
          u_after, p_after = hit.take(limit, cost, u, p)
        end
      end
    end
    if u_after and cost > 0 then
      at[i], used[i], prev[i], changed[i] = a, u_after, p_after, hit
    end

    if hit.mode == 0 then
      denied = denied or over[h]
    elseif hit.mode == 2 then
      quotas, quotas_over = quotas + 1, quotas_over + (over[h] and 1 or 0)
    end
  end

  if denied or quotas > 0 and quotas == quotas_over then
    for h = #hits, 1, -1 do
      local i = counter_of[KEYS[first + h]]
      at[i], used[i], prev[i], changed[i] = at_before[h], used_before[h], prev_before[h], false
    end
    for h = 1, #hits do
      local hit = hits[h]
      if hit.unconditional then
        local i, change = counter_of[KEYS[first + h]], hit.refund and hit.give or hit.take
        local a, u, p = hit.roll(hit.limit, at[i], used[i], prev[i])
        at[i], changed[i] = a, hit
        used[i], prev[i] = change(hit.limit, hit.cost, u, p)
      end
    end
  end

  for h = 1, #hits do
    local i = counter_of[KEYS[first + h]]
    local text = texts[i]
    if changed[i] then
      writer[i], changed[i], text = changed[i], false, nil
    end
    if not text then
      text = state_text(at[i], used[i], prev[i])
      texts[i] = text
    end
    outcomes[h] = over[h] and "!" .. text or text
  end
  reply[r + 1] = concat(outcomes, ",", 1, #hits)
  first = first + #hits
end

-- Whether a counter is not what is stored of it.
local function dirty(i)
  return writer[i] and texts[i] ~= stored[i] and (used[i] > 0 or prev[i] > 0 or stored[i])
end

local function write(i)
  local hit = writer[i]
  if used[i] == 0 and prev[i] == 0 then
    return pcall("DEL", KEYS[i])
  elseif used[i] > 0 and at[i] == lives_on[i] then
    return pcall("SET", KEYS[i], texts[i], "KEEPTTL") -- takes Redis half as long as PX
  end
  local left = hit.left(hit.limit, at[i], used[i], prev[i])
  return pcall("SET", KEYS[i], texts[i], "PX", ceil(left / 1000))
end

-- Redis refuses the first write (a replica, or out of memory) or none, so that nothing is half written.
local failure
for i = 1, #KEYS do
  if dirty(i) then
    local result = write(i)
    if type(result) == "table" and result.err then
      failure = result.err
      break
    end
  end
end

-- Then only requests on counters that nobody changed have their answer, such as denials.
if failure then
  first = 0
  for r = 1, #requests do
    for h = 1, #requests[r] do
      if dirty(counter_of[KEYS[first + h]]) then
        reply[r + 1] = "-" .. failure
      end
    end
    first = first + #requests[r]
  end
end

return reply
