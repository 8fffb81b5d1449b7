-- Decides the batches that neither straight.lua nor together.lua do. The other files stand before this one.
--
-- A counter that has room for all its hits is charged with their sum even so. The requests that have a hit on another
-- counter are decided one after the other, each all or nothing, as limiter.Decide does, and before the rest:
-- nobody has been answered yet, so that the order is free.
--
-- KEYS     the counters that the batch meets, each once
-- ARGV[2]  after the groups, see together.lua, the requests: for every hit HIT bytes, which are four integers
--            3 bytes  the number of its counter
--            1 byte   mode + 3 * charge, and LAST more in the last hit of a request
--                     mode: 0 enforced, 1 shadow, 2 quota; charge: 0 if admitted, 1 always, 2 refund
--            3 bytes  the number of its limit
--            7 bytes  cost: units taken or, by a refund, given back; 0 is a peek, which asks for one unit unless
--                     it is charged always; of a hit with a hold see holds.lua
-- Reply    integers: the time; SINGLE and the number of requests that were decided one after the other; of each
--          of these its number, from 0 on, and for every hit what became of it and the state of its counter after
--          the request; then the state of each counter at the end. A state is as in together.lua, with OVER for
--          ADMITTED if the hit is over its limit, however short it is, and ALREADY if its hold was as it wants it.
--          If Redis refused a write: the time, REFUSED, the number of requests that did not need it, each as above,
--          and the bytes of Redis' error.

-- The counters.
local at, used, prev = {}, {}, {} -- their states, as they are to be stored
local banned = {}                 -- until when their bans are, also those that have ended; nothing without one
local limit_of = {}               -- of their first hits
local writer = {}                 -- the limit of the hit that changed it last
local brought_back = {}           -- whether the clock had stepped back behind what is stored
local lives_on = {}               -- the at with which the state, if it is used, expires when it did before
local counted = {}                -- the used that is stored, if INCRBY can change it
local sums = {}                   -- of their hits, false if they do not fit together

-- The state of a counter that is charged with a sum, nothing if it does not fit.
local function raised(i, sum)
  local limit, a, u, p = limit_of[i], at[i], used[i], prev[i]
  if a < limit.oldest or u == 0 then
    a, u, p = limit.algorithm.roll(limit, a, u, p)
  end
  u, p = limit.algorithm.admit(limit, sum, sum, a, u, p)
  return u and a, u, p
end

do
  local last = 0
  for n, sum, count in gmatch(groups_text, "(%d+) (%d+) (%d+) ") do
    local limit, first = limits[tonumber(n)], last + 1
    sum, last = tonumber(sum), last + count
    for i = first, last do
      local a, u, p, short, b
      if limit.holds then
        a, u, p = look(i, limit)
      else
        a, u, p, short, b = read(i, limit)
      end
      if a > limit.newest then
        a, u, p = limit.algorithm.back(limit, a, u, p)
        brought_back[i] = true
      elseif limit.lasting and u > 0 and not b then
        lives_on[i], counted[i] = a, short and u
      end
      at[i], used[i], prev[i], limit_of[i] = a, u, p, limit
      if b then
        banned[i], bans = b, true
      end
      sums[i] = sum > 0 and not (b and limit.ban and b > now) and raised(i, sum) and sum
    end
  end
end

local singles = {} -- the requests to decide one after the other: their hits
local numbers = {} -- and which requests these are
do
  local hits, single, number = {}, false, 0
  for p = 1, #requests_text, HIT do
    local i1, i2, i3, how, n1, n2, n3, c1, c2, c3, c4, c5, c6, c7 = byte(requests_text, p, p + HIT - 1)
    local i, limit = (i1 * 256 + i2) * 256 + i3, limits[(n1 * 256 + n2) * 256 + n3]
    local cost = (((((c1 * 256 + c2) * 256 + c3) * 256 + c4) * 256 + c5) * 256 + c6) * 256 + c7
    local last, name = how >= LAST, name_of(limit, cost)
    cost, how = name and 1 or cost, how % LAST
    hits[#hits + 1] = {
      counter = i, cost = cost, wanted = max(cost, how >= 3 and 0 or 1), limit = limit, algorithm = limit.algorithm,
      name = name, mode = how % 3, refund = how >= 6, always = how >= 3, unconditional = how >= 3 and cost > 0,
    }
    single = single or not sums[i]
    if last then
      if single then
        singles[#singles + 1], numbers[#numbers + 1] = hits, number
        for h = 1, #hits do
          local hit = hits[h]
          sums[hit.counter] = sums[hit.counter] and sums[hit.counter] - hit.cost
        end
      end
      hits, single, number = {}, false, number + 1
    end
  end
end

local reply, replied = { now, SINGLE, #singles }, 3 -- integers, and how many
local begins = {}                                   -- behind which of them each single request begins

-- Adds to the reply what became of a hit on a counter, and its state.
local function add_state(i, is_over, is_already)
  local a, u, p = at[i], used[i], prev[i]
  if banned[i] then
    reply[replied + 1], reply[replied + 2] = BANNED, banned[i]
    replied = replied + 2
  end
  if p == 0 and u < MILLION and a < SHORT and not is_over and not is_already then
    replied = replied + 1
    reply[replied] = a * MILLION + u
  else
    reply[replied + 1] = is_over and OVER or is_already and ALREADY or ADMITTED
    reply[replied + 2], reply[replied + 3], reply[replied + 4] = a, u, p
    replied = replied + 4
  end
end

local over = {}                                        -- of a request's hits: whether it is over
local at_before, used_before, prev_before = {}, {}, {} -- the state of its counter before
local already, held_before = {}, {} -- whether the hold is as the hit wants it, and what it was before
local writer_before, banned_before = {}, {}

-- Until when the ban of a counter is in force for a limit, false if none is.
local function ban_of(i, limit)
  local b = limit.ban and banned[i]
  if not b or b <= now then
    return false
  elseif b > limit.longest_ban then -- the clock stepped back, or bans were longer
    b, banned[i], brought_back[i] = limit.longest_ban, limit.longest_ban, true
  end
  return b
end

for r = 1, #singles do
  local hits = singles[r]
  local denied, quotas, quotas_over = false, 0, 0

  for h = 1, #hits do
    local hit = hits[h]
    local i, limit, algorithm, cost = hit.counter, hit.limit, hit.algorithm, hit.cost
    local a, u, p, b = at[i], used[i], prev[i], bans and ban_of(i, limit)
    at_before[h], used_before[h], prev_before[h], writer_before[h] = a, u, p, writer[i]
    if bans then
      banned_before[h] = banned[i] or false
    end
    if a < limit.oldest or u == 0 then
      a, u, p = algorithm.roll(limit, a, u, p)
    end

    local u_after, p_after
    already[h] = hit.name and is_held(i, hit.name) ~= hit.refund
    held_before[h] = hit.name and held[i][hit.name]
    if already[h] then
      over[h] = false
    elseif hit.refund then
      over[h] = false
      u_after, p_after = algorithm.give(limit, cost, u, p)
    else
      if not b then
        u_after, p_after = algorithm.admit(limit, cost, hit.wanted, a, u, p)
      end
      over[h] = not u_after
      if not u_after and hit.always then
        u_after, p_after = algorithm.take(limit, cost, u, p)
      end
    end
    if u_after and cost > 0 then
      at[i], used[i], prev[i], writer[i] = a, u_after, p_after, limit
      if hit.name then
        held[i][hit.name] = not hit.refund
      end
      if bans then
        banned[i] = b
      end
    end

    if hit.mode == 0 then
      denied = denied or over[h]
    elseif hit.mode == 2 then
      quotas, quotas_over = quotas + 1, quotas_over + (over[h] and 1 or 0)
    end
  end

  if denied or quotas > 0 and quotas == quotas_over then
    for h = #hits, 1, -1 do
      local i = hits[h].counter
      at[i], used[i], prev[i], writer[i] = at_before[h], used_before[h], prev_before[h], writer_before[h]
      if hits[h].name then
        held[i][hits[h].name] = held_before[h]
      end
      if bans then
        banned[i] = banned_before[h]
      end
    end
    for h = 1, #hits do
      local hit = hits[h]
      if hit.unconditional then
        already[h] = hit.name and is_held(hit.counter, hit.name) ~= hit.refund
      end
      if hit.unconditional and not already[h] then
        local i, change = hit.counter, hit.refund and hit.algorithm.give or hit.algorithm.take
        local a, u, p = hit.algorithm.roll(hit.limit, at[i], used[i], prev[i])
        at[i], writer[i] = a, hit.limit
        used[i], prev[i] = change(hit.limit, hit.cost, u, p)
        if hit.name then
          held[i][hit.name] = not hit.refund
        end
        if bans then
          banned[i] = ban_of(i, hit.limit)
        end
      end
    end
    for h = 1, bans and #hits or 0 do
      local hit = hits[h]
      local i, limit = hit.counter, hit.limit
      if limit.ban and over[h] and hit.mode == 0 and hit.cost > 0 and (banned[i] or 0) <= now then
        banned[i], writer[i] = limit.ban, limit
      end
    end
  end

  begins[r], replied = replied, replied + 1
  reply[replied] = numbers[r]
  for h = 1, #hits do
    add_state(hits[h].counter, over[h], already[h])
  end
end
begins[#singles + 1] = replied

-- The other requests.
for i = 1, #KEYS do
  local sum = sums[i]
  if sum and sum > 0 then
    at[i], used[i], prev[i] = raised(i, sum)
    writer[i] = limit_of[i]
    if bans then
      banned[i] = false
    end
  end
  add_state(i)
end

-- Whether a counter is not what is stored of it.
local function dirty(i)
  if held[i] then
    return is_changed(i)
  end
  return (used[i] > 0 or prev[i] > 0 or banned[i] or stored[i])
    and state_text(at[i], used[i], prev[i], banned[i]) ~= stored[i]
end

local function write(i)
  local a, u, p, b, limit = at[i], used[i], prev[i], banned[i], writer[i] or limit_of[i]
  if not dirty(i) then
    return
  elseif held[i] then
    return write_holds(i, limit, a)
  elseif u > 0 and a == lives_on[i] and not b then
    return pcall("SET", KEYS[i], state_text(a, u, p), "KEEPTTL") -- takes Redis half as long as PX
  end
  return pcall("SET", KEYS[i], state_text(a, u, p, b), "PX", expiry(limit, a, u, p, b))
end

-- If Redis refuses a write, nothing is written: what was before it is undone, by the command that was permitted
-- then. A replica, or a Redis out of memory, refuses the first; a user may lack the permission for a command or a
-- key. INCRBY may be refused without harm: the rest of the call is then set, rather than have Redis note a
-- refusal for each counter. It also fails if Redis does not read the integer as tonumber does.
local failure
local increment = {}
for i = 1, #KEYS do
  if writer[i] or brought_back[i] then
    local u, before, result = used[i], counted[i], nil
    local n = increments and before and at[i] == lives_on[i] and not banned[i] and u > 0 and u < MILLION and u - before or 0
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
      for w = 1, held[i] and i or i - 1 do
        if held[w] then
          restore_holds(w)
        elseif increment[w] then
          pcall("INCRBY", KEYS[w], format("%d", -increment[w]))
        elseif writer[w] and dirty(w) then
          restore(w, writer[w])
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
local answer, answered = { now, REFUSED, 0 }, 0
for r = 1, #singles do
  local hits, refused = singles[r], false
  for h = 1, #hits do
    local i = hits[h].counter
    refused = refused or writer[i] and dirty(i)
  end
  if not refused then
    answered = answered + 1
    for n = begins[r] + 1, begins[r + 1] do
      answer[#answer + 1] = reply[n]
    end
  end
end
answer[3] = answered
for n = 1, #failure do
  answer[#answer + 1] = byte(failure, n)
end
return answer
