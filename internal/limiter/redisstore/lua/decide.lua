-- Decides a batch of requests in their order, each all or nothing, as limiter.Decide does.
--
-- KEYS     the counter of every hit, request after request
-- ARGV[1]  the time of the decision in microseconds since the epoch; empty: the time of Redis
-- ARGV[2]  and each further one: a request, as four integers for every hit of it:
--            how     mode + 3 * charge
--                    mode: 0 enforced, 1 shadow, 2 quota; charge: 0 if admitted, 1 always, 2 refund
--            cost    units taken or, by a refund, given back; 0 is a peek
--            amount  units that the limit admits per period
--            period  of the limit, in microseconds
-- Reply    integers: the time of the decision, and for every hit
--            1 if it is over its limit, else 0
--            window and units used of its counter after its request
--
-- A counter is stored as "<window> <used>": the number of its fixed window, counted from the epoch in
-- periods, and the units used in it. It expires with the window. Anything else that a key holds counts
-- as unused, and is replaced by the first charge. The hits of one key have one period: it is in the key.
--
-- Every number is an integer below 2^53, up to which those of Lua are exact. An error leaves nothing
-- half written: Redis refuses the first SET (replica, out of memory), or none.

local MAX_USED = 2 ^ 52 -- what a counter holds at most
local CHUNK = 1024      -- keys per MGET: unpack can return some thousand values only

local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min
local KEYS = KEYS

-- First of all, because Redis reckons PX from the moment at which the script began.
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call("TIME")
  now = time[1] * 1000000 + time[2]
end

-- Requests that meet the same rules have equal texts. Each text is read once, into the list of its
-- numbers, because reading takes longer than deciding.
local requests, known = {}, {}
for r = 2, #ARGV do
  local text = ARGV[r]
  local request = known[text]
  if not request then
    request = {}
    for number in string.gmatch(text, "%d+") do
      request[#request + 1] = tonumber(number)
    end
    known[text] = request
  end
  requests[r - 1] = request
end

local texts = {}
for i = 1, #KEYS, CHUNK do
  local chunk = redis.call("MGET", unpack(KEYS, i, min(i + CHUNK - 1, #KEYS)))
  for j = 1, #chunk do
    texts[i + j - 1] = chunk[j]
  end
end

-- The counters by key, as of now: hits of one key share them. expiry is that of the counters which are
-- not in Redis.
local window, used, stored, expiry = {}, {}, {}, {}

local function read(key, text, period)
  local current = floor(now / period)
  local w, u
  if text then
    w, u = string.match(text, "^(%d+) (%d+)$")
    w, u = tonumber(w), tonumber(u)
  end
  -- A window newer than the current one goes on: the clock was set back.
  if not w or w < current or u > MAX_USED or (w + 1) * period >= 2 ^ 53 then
    w, u = current, 0
    expiry[key] = (w + 1) * period
  end
  window[key], used[key], stored[key] = w, u, u
end

local over, before = {}, {} -- of a request's hits: 1 if over; used of the counter before the hit
local reply = { now }
local first = 0             -- hits of earlier requests

for r = 1, #requests do
  local request = requests[r]
  local hits = #request / 4
  local denied, quotas, quotas_over = false, 0, 0

  for h = 1, hits do
    local key = KEYS[first + h]
    local how, cost, amount = request[4 * h - 3], request[4 * h - 2], request[4 * h - 1]
    if not used[key] then
      read(key, texts[first + h], request[4 * h])
    end
    local u = used[key]
    before[h], over[h] = u, 0
    if how >= 6 then
      used[key] = max(u - cost, 0)
    elseif u + max(cost, 1) <= amount then
      used[key] = u + cost
    else
      over[h] = 1
      if how >= 3 then
        used[key] = min(u + cost, MAX_USED)
      end
    end

    local mode = how % 3
    if mode == 0 then
      denied = denied or over[h] == 1
    elseif mode == 2 then
      quotas, quotas_over = quotas + 1, quotas_over + over[h]
    end
  end

  if denied or quotas > 0 and quotas == quotas_over then
    for h = hits, 1, -1 do
      used[KEYS[first + h]] = before[h]
    end
    for h = 1, hits do
      local key, how, cost = KEYS[first + h], request[4 * h - 3], request[4 * h - 2]
      if how >= 6 then
        used[key] = max(used[key] - cost, 0)
      elseif how >= 3 then
        used[key] = min(used[key] + cost, MAX_USED)
      end
    end
  end

  for h = 1, hits do
    local key, n = KEYS[first + h], 3 * (first + h) - 1
    reply[n] = over[h]
    reply[n + 1] = window[key]
    reply[n + 2] = used[key]
  end
  first = first + hits
end

for i = 1, #KEYS do
  local key = KEYS[i]
  local u = used[key]
  if u ~= stored[key] then
    stored[key] = u
    local text = string.format("%d %d", window[key], u) -- tostring gives 1.79e+15
    if expiry[key] then
      redis.call("SET", key, text, "PX", ceil((expiry[key] - now) / 1000))
    else
      redis.call("SET", key, text, "KEEPTTL") -- takes Redis half as long as PX
    end
  end
end

return reply
