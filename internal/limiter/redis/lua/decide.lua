-- The other way: decides the requests of a batch one after the other, each all or nothing, as limiter.Decide does,
-- and gives back what requests were charged that were then denied elsewhere, as limiter.Limit.GiveBack does.
--
-- KEYS     the counters that the batch meets, each once. A state is stored until it is as good as unused. Anything
--          else that a key holds counts as unused, and is replaced by the first charge.
-- ARGV[2]  the limits, see limits.lua, and a semicolon; then the requests: for every hit HIT bytes, which are four integers
--            3 bytes  the number of its counter
--            1 byte   mode + 3 * charge, and LAST more in the last hit of a request
--                     mode: 0 enforced, 1 shadow, 2 quota; charge: 0 if admitted, 1 always, 2 refund, 3 to give back
--            3 bytes  the number of its limit, from 1 on
--            7 bytes  cost: units taken or given back; 0 is a peek, which asks for one unit unless it is charged
--                     always; of a hit with a hold see holds.lua
--          and behind one to give back three more integers of 7 bytes: at, used and prev of the state that the charge left
-- Reply    integers: the time; SINGLE; for every hit what became of it, and the state of its counter after its request: at,
--          used, prev and until. If Redis refused a write, the hits of requests that need one are REFUSED, and the bytes
--          of Redis' error follow at the end.

local HIT, LAST, ALWAYS, REFUND, GIVE_BACK = 14, 16, 1, 2, 3

-- The states of the counters, as stored and as they are now. None of these tables changes, so that one can be put
-- back. A state that was changed also has the limit that did it.
local found, states = {}, {}

-- Until when the ban of a state is in force for a limit, nothing if none is.
local function ban_of(s, limit)
  local ban = limit.ban and s.banned
  if ban and ban > now then
    return min(ban, limit.longest_ban) -- else the clock stepped back, or bans were longer
  end
end

-- The state of the counter of a hit. One from after now is brought back, whatever becomes of the hit.
local function state_of(hit)
  local i, limit = hit.counter, hit.limit
  local s = states[i]
  if not s then
    if limit.holds then
      s = look(i, limit)
    else
      s = {}
      s.at, s.used, s.prev, s.banned = parse_state(stored[i], limit)
    end
    found[i], states[i] = s, s
  end
  if hit.charge == GIVE_BACK then
    return s
  end
  local ban = ban_of(s, limit)
  if s.at > limit.newest or ban and ban < s.banned then
    local at, used, prev = s.at, s.used, s.prev
    if at > limit.newest then
      at, used, prev = limit.algorithm.back(limit, at, used, prev)
    end
    s = { at = at, used = used, prev = prev, banned = ban or s.banned, limit = limit, brought = true }
    states[i] = s
  end
  return s
end

-- Takes or gives back the cost of a hit. The state of its counter as of now comes last.
local function write(hit, s, at, used, prev)
  local limit, refund = hit.limit, hit.charge == REFUND
  local change = refund and limit.algorithm.give or limit.algorithm.take
  used, prev = change(limit, hit.cost, used, prev)
  states[hit.counter] = { at = at, used = used, prev = prev, banned = ban_of(s, limit), limit = limit }
  if hit.name then
    held[hit.counter][hit.name] = not refund
  end
end

local function is_already(hit)
  return hit.name and is_held(hit.counter, hit.name) ~= (hit.charge == REFUND)
end

-- Gives back what a hit was charged earlier: of a hold nothing if it is another one of that name by now.
local function give_back(hit, s)
  local i, limit, charged = hit.counter, hit.limit, hit.charged
  local algorithm = limit.algorithm
  if hit.name then
    if is_held(i, hit.name) and held[i][hit.name] == charged.at + limit.period then
      held[i][hit.name] = false
      states[i] = { at = s.at, used = s.used - 1, prev = 0, limit = limit }
    end
    return
  elseif s.used + s.prev == 0 or max(s.at, charged.at) > limit.newest then -- nobody knows how long ago that was
    return
  end
  local left_at, left_used, left_prev = algorithm.roll(limit, charged.at, charged.used, charged.prev)
  local at, used, prev = algorithm.roll(limit, s.at, s.used, s.prev)
  used, prev = algorithm.give_back(limit, hit.cost, at, used, prev, left_at, left_used, left_prev, charged.at)
  if used then
    states[i] = { at = at, used = used, prev = prev, banned = ban_of(s, limit), limit = limit }
  end
end

-- Decides a request.
local function decide(hits)
  local denied, quotas, quotas_over = false, 0, 0
  for h = 1, #hits do
    local hit = hits[h]
    local s, limit, charge = state_of(hit), hit.limit, hit.charge
    hit.before = s
    if charge == GIVE_BACK then
      give_back(hit, s)
    else
      local at, used, prev = limit.algorithm.roll(limit, s.at, s.used, s.prev)
      hit.already = is_already(hit)
      hit.held_before = hit.name and held[hit.counter][hit.name]
      local wanted = max(hit.cost, charge == ALWAYS and 0 or 1)
      hit.over = charge ~= REFUND and not hit.already
        and (ban_of(s, limit) ~= nil or not limit.algorithm.fits(limit, wanted, at, used, prev))
      if hit.cost > 0 and not hit.already and (not hit.over or charge == ALWAYS) then
        write(hit, s, at, used, prev)
      end
    end
    denied = denied or hit.mode == 0 and hit.over
    if hit.mode == 2 then
      quotas, quotas_over = quotas + 1, quotas_over + (hit.over and 1 or 0)
    end
  end

  if denied or quotas > 0 and quotas == quotas_over then
    for h = #hits, 1, -1 do
      local hit = hits[h]
      states[hit.counter] = hit.before
      if hit.name then
        held[hit.counter][hit.name] = hit.held_before
      end
    end
    for h = 1, #hits do
      local hit = hits[h]
      local s, limit = states[hit.counter], hit.limit
      if hit.charge ~= 0 and hit.cost > 0 then
        hit.already = is_already(hit)
        if not hit.already then
          write(hit, s, limit.algorithm.roll(limit, s.at, s.used, s.prev))
        end
      end
    end
    for h = 1, #hits do
      local hit = hits[h]
      local s, limit = states[hit.counter], hit.limit
      if limit.ban and hit.over and hit.mode == 0 and not ban_of(s, limit) then
        states[hit.counter] = { at = s.at, used = s.used, prev = s.prev, banned = limit.ban, limit = limit }
      end
    end
  end
  for h = 1, #hits do
    hits[h].after = states[hits[h].counter]
  end
end

local requests, hits, p = {}, {}, 1
while p <= #text do
  local i1, i2, i3, how, n1, n2, n3 = byte(text, p, p + 6)
  local last, mode = how >= LAST, how % LAST % 3
  local hit = {
    counter = (i1 * 256 + i2) * 256 + i3, limit = limits[(n1 * 256 + n2) * 256 + n3],
    mode = mode, charge = (how % LAST - mode) / 3, cost = integer(text, p + 7),
    before = false, after = false, over = false, already = false, -- what decide finds out
  }
  p = p + HIT
  if hit.limit.holds and hit.cost > 1 then
    hit.name, hit.cost = name_of(hit.cost), hit.cost % 2
  end
  if hit.charge == GIVE_BACK then
    hit.charged = { at = integer(text, p), used = integer(text, p + 7), prev = integer(text, p + 14) }
    p = p + 21
  end
  hits[#hits + 1] = hit
  if last then
    decide(hits)
    requests[#requests + 1] = hits
    hits = {}
  end
end

-- What is to be stored of a counter, nothing if it is stored already. Of one with holds it is true.
local function news_of(i)
  if held[i] then
    return is_changed(i)
  end
  local s = states[i]
  if s ~= found[i] and (s.used > 0 or s.prev > 0 or s.banned or stored[i]) then
    local text = state_text(s.at, s.used, s.prev, s.banned)
    return text ~= stored[i] and text
  end
end

-- A replica, or a Redis out of memory, refuses the first write or none. Only a user who may use some of the commands
-- has what was before a refusal written: the request fails all the same.
local failure
for i = 1, #KEYS do
  local s, news = states[i], news_of(i)
  if news and held[i] then
    failure = write_holds(i, s.limit, s.at)
  elseif news then
    local was = found[i]
    if was.banned or s.banned or not expires_alike(s.limit, was.at, was.used, s.at, s.used) then
      failure = pcall("SET", KEYS[i], news, "PX", expiry(s.limit, s.at, s.used, s.prev, s.banned)).err
    else
      failure = pcall("SET", KEYS[i], news, "KEEPTTL").err
    end
  end
  if failure then
    break
  end
end

local reply, n = { now, SINGLE }, 2
for r = 1, #requests do
  local hits, refused = requests[r], false
  for h = 1, failure and #hits or 0 do -- denials, which change nothing, are answered
    local i = hits[h].counter
    refused = refused or news_of(i) and not states[i].brought
  end
  for h = 1, #hits do
    local hit = hits[h]
    local s = hit.after
    reply[n + 1] = refused and REFUSED or hit.over and OVER or hit.already and ALREADY or ADMITTED
    reply[n + 2], reply[n + 3], reply[n + 4], reply[n + 5] = s.at, s.used, s.prev, s.banned or 0
    n = n + 5
  end
end
for b = 1, failure and #failure or 0 do
  reply[n + b] = byte(failure, b)
end
return reply
