-- Decides a batch of requests in their order, each all or nothing, as limiter.Decide does. The other files
-- stand before this one.
--
-- KEYS     the counter of every hit, request after request
-- ARGV     see limits.lua; each from the third on is a request, as three integers for every hit of it:
--            how     mode + 3 * charge
--                    mode: 0 enforced, 1 shadow, 2 quota; charge: 0 if admitted, 1 always, 2 refund
--            cost    units taken or, by a refund, given back; 0 is a peek, which asks for one unit unless it
--                    is charged always
--            limit   its number
-- Reply    integers: the time of the decision, and for every hit what became of it and the state of its
--          counter after the request:
--            at * 1000000 + used   if it is not over its limit and the state is short, see state.lua
--            ADMITTED or OVER, at, used, prev   otherwise
--          or, of a request whose writes Redis refused, only REFUSED; then the bytes of Redis' error follow
--
-- A state is stored until it is as good as unused. Anything else that a key holds counts as unused, and is
-- replaced by the first charge. The hits of one key have one kind and period: they are in the key.

local CHUNK = 1024 -- keys per MGET: unpack can return some thousand values only

local function read_request(text)
  local hits = {}
  for how, cost, n in gmatch(text, "(%d+) (%d+) (%d+) ") do
    how, cost = tonumber(how), tonumber(cost)
    local limit = limits[tonumber(n)]
    local algorithm = limit.algorithm
    hits[#hits + 1] = {
      mode = how % 3, refund = how >= 6, always = how >= 3, unconditional = how >= 3 and cost > 0,
      cost = cost, wanted = max(cost, how >= 3 and 0 or 1), limit = limit,
      roll = algorithm.roll, admit = algorithm.admit, take = algorithm.take, give = algorithm.give,
    }
  end
  return hits
end

-- Requests that meet the same rules have equal texts. Each text is read once, because reading takes
-- longer than deciding.
local requests, known = {}, {}
for r = 3, #ARGV do
  local text = ARGV[r]
  local request = known[text]
  if not request then
    request = read_request(text)
    known[text] = request
  end
  requests[r - 2] = request
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
local writer = {}                 -- the hit that wrote last
local brought_back = {}           -- a hit on it, if the clock had stepped back behind what is stored
local lives_on = {}               -- the at with which the state, if it is used, expires when it did before
local counted = {}                -- the used that is stored, if INCRBY can change it

-- Reads a counter for a hit and returns its state.
local function read(i, hit)
  local limit, text = hit.limit, stored[i]
  local a, u, p, short
  if text then
    a, u, p, short = parse_state(text, limit)
  end
  if not a then
    a, u, p = 0, 0, 0
  elseif a > limit.newest then
    a, u, p = limit.algorithm.back(limit, a, u, p)
    brought_back[i] = hit
  elseif limit.lasting and u > 0 then
    lives_on[i], counted[i] = a, short and u
  end
  return a, u, p
end

local counter, over = {}, {}                           -- of a request's hits: its counter, whether it is over
local at_before, used_before, prev_before = {}, {}, {} -- the state of its counter before
local writer_before = {}
local reply, replied = { now }, 1                      -- integers, and how many
local begins = {}                                      -- behind which of them each request begins
local first = 0                                        -- hits of earlier requests

for r = 1, #requests do
  local hits = requests[r]
  local denied, quotas, quotas_over = false, 0, 0

  for h = 1, #hits do
    local hit, key = hits[h], KEYS[first + h]
    local limit, cost = hit.limit, hit.cost
    local i, a, u, p = counter_of[key], nil, nil, nil
    if i then
      a, u, p = at[i], used[i], prev[i]
    else
      i = first + h
      counter_of[key] = i
      a, u, p = read(i, hit)
      at[i], used[i], prev[i] = a, u, p
    end
    counter[h], at_before[h], used_before[h], prev_before[h], writer_before[h] = i, a, u, p, writer[i]
    if a < limit.oldest or u == 0 then
      a, u, p = hit.roll(limit, a, u, p)
    end

    local u_after, p_after
    if hit.refund then
      over[h] = false
      u_after, p_after = hit.give(limit, cost, u, p)
    else
      u_after, p_after = hit.admit(limit, cost, hit.wanted, a, u, p)
      over[h] = not u_after
      if not u_after and hit.always then
        u_after, p_after = hit.take(limit, cost, u, p)
      end
    end
    if u_after and cost > 0 then
      at[i], used[i], prev[i], writer[i] = a, u_after, p_after, hit
    end

    if hit.mode == 0 then
      denied = denied or over[h]
    elseif hit.mode == 2 then
      quotas, quotas_over = quotas + 1, quotas_over + (over[h] and 1 or 0)
    end
  end

  if denied or quotas > 0 and quotas == quotas_over then
    for h = #hits, 1, -1 do
      local i = counter[h]
      at[i], used[i], prev[i], writer[i] = at_before[h], used_before[h], prev_before[h], writer_before[h]
    end
    for h = 1, #hits do
      local hit = hits[h]
      if hit.unconditional then
        local i, change = counter[h], hit.refund and hit.give or hit.take
        local a, u, p = hit.roll(hit.limit, at[i], used[i], prev[i])
        at[i], writer[i] = a, hit
        used[i], prev[i] = change(hit.limit, hit.cost, u, p)
      end
    end
  end

  begins[r] = replied
  for h = 1, #hits do
    local i = counter[h]
    local a, u, p = at[i], used[i], prev[i]
    if p == 0 and u < MILLION and a < SHORT and not over[h] then
      replied = replied + 1
      reply[replied] = a * MILLION + u
    else
      reply[replied + 1] = over[h] and OVER or ADMITTED
      reply[replied + 2], reply[replied + 3], reply[replied + 4] = a, u, p
      replied = replied + 4
    end
  end
  first = first + #hits
end

-- Whether a counter is not what is stored of it.
local function dirty(i)
  return (used[i] > 0 or prev[i] > 0 or stored[i]) and state_text(at[i], used[i], prev[i]) ~= stored[i]
end

-- An unused state is stored for the least time that there is, rather than deleted: DEL is a permission more.
local function expiry(limit, a, u, p)
  return u == 0 and p == 0 and 1 or max(ceil(limit.algorithm.left(limit, a, u, p) / 1000), 1) + spare
end

local function write(i)
  local a, u, p, limit = at[i], used[i], prev[i], (writer[i] or brought_back[i]).limit
  if not dirty(i) then
    return
  elseif u > 0 and a == lives_on[i] then
    return pcall("SET", KEYS[i], state_text(a, u, p), "KEEPTTL") -- takes Redis half as long as PX
  end
  return pcall("SET", KEYS[i], state_text(a, u, p), "PX", expiry(limit, a, u, p))
end

-- Writes what a counter was, after write has written to it.
local function restore(i)
  local limit = writer[i].limit
  local a, u, p = parse_state(stored[i] or "0", limit)
  if not a then
    a, u, p = 0, 0, 0
  end
  pcall("SET", KEYS[i], stored[i] or "0", "PX", expiry(limit, a, u, p))
end

-- If Redis refuses a write, nothing is written: what was before it is undone, by the command that was permitted
-- then. A replica, or a Redis out of memory, refuses the first; a user may lack the permission for a command or a
-- key. INCRBY may be refused without harm: the rest of the call is then set, rather than have Redis note a
-- refusal for each counter. It also fails if Redis does not read the integer as tonumber does.
local failure
local increments, increment = true, {}
for i = 1, #KEYS do
  if writer[i] or brought_back[i] then
    local u, before, result = used[i], counted[i], nil
    local n = increments and before and at[i] == lives_on[i] and u > 0 and u < MILLION and u - before or 0
    if n ~= 0 then -- takes Redis half as long as SET
      result = pcall("INCRBY", KEYS[i], n == 1 and "1" or format("%d", n))
      increments = type(result) ~= "table"
      increment[i] = increments and n
    end
    if n == 0 or not increments then
      result = write(i)
    end
    if type(result) == "table" and result.err then
      failure = result.err
      for w = 1, i - 1 do
        if increment[w] then
          pcall("INCRBY", KEYS[w], format("%d", -increment[w]))
        elseif writer[w] and dirty(w) then
          restore(w)
        end
      end
      break
    end
  end
end
if not failure then
  return reply
end

-- Only requests on counters that nobody changed have their answer, such as denials.
begins[#requests + 1] = replied
local answer = { now }
local some = false
first = 0
for r = 1, #requests do
  local refused = false
  for h = 1, #requests[r] do
    local i = counter_of[KEYS[first + h]]
    refused = refused or writer[i] and dirty(i)
  end
  if refused then
    some = true
    answer[#answer + 1] = REFUSED
  else
    for n = begins[r] + 1, begins[r + 1] do
      answer[#answer + 1] = reply[n]
    end
  end
  first = first + #requests[r]
end
for n = 1, some and #failure or 0 do -- none, if only to bring back a counter was refused
  answer[#answer + 1] = byte(failure, n)
end
return answer
