-- Changes texts of one part of the set that servers share.
-- KEYS[1]  hash with the texts by ID; its field "." is missing only if Redis lost the part, and has the
--          time in ms if changes that Redis had lost were made again
-- KEYS[2]  list of the last changes, newest first, each a token of 8 bytes and an ID
-- ARGV[1]  the newest change that the caller has read; nothing happens if it is not the newest
-- ARGV[2]  the token of these changes
-- ARGV[3]  "again" if Redis has lost the changes; others wait for 2 s then, so that each server can do so.
--          "known" if the caller knows texts, so that nothing happens if Redis has none
-- ARGV     then, for each change, six texts: its kind, the ID, and
--   put     the text, or "" to remove it; the change, or "" for a new one
--   keep    a text that is set if there is none or if that of an amount is older; without an old
--           one it is no change of the list
--   assign  an amount, or + and what to add to it; time in ms and name; a note, or "" for the old one;
--           a name of the change, or "". The last 16 names of changes of an amount are remembered.
-- Returns {"behind"} or {"wait"}, or for each change one of added, changed, removed, same, large (more than 2^50)
-- and unread (the text is of a newer version).
if (redis.call("LRANGE", KEYS[2], 0, 0)[1] or "") ~= ARGV[1] or
  ARGV[3] == "known" and redis.call("HLEN", KEYS[1]) == 0 then return {"behind"} end

local time, again = redis.call("TIME"), ARGV[3] == "again"
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local made = tonumber(redis.call("HMGET", KEYS[1], ".")[1] or "") or 0
if not again and made <= now and now < made + 2000 then return {"wait"} end

-- stamp returns the time of the last change of an amount.
local function stamp(text) return tonumber(text:match("^[^\n]*\n(%d+)\n") or "") or 0 end

local function put(id, old, text, change)
  if text == (old or "") then return "same" end
  -- HDEL goes first, because then Redis lets the script write even if it is out of memory.
  redis.call("HDEL", KEYS[1], id)
  if text ~= "" then redis.call("HSET", KEYS[1], id, text, ".", again and string.format("%.0f", now) or "yes") end
  if change then redis.call("LPUSH", KEYS[2], change) end
  return text == "" and "removed" or old and "changed" or "added"
end

local function assign(id, old, amount, by, note, name)
  local was, wasNote, names = (old or "0\n\n\n\n"):match("^(.-)\n.-\n.-\n(.-)\n(.*)$")
  if not was or was ~= "unlimited" and not tonumber(was) then return "unread" end
  if name ~= "" and names:find(name, 1, true) then return "same" end
  if amount:sub(1, 1) == "+" then
    if was == "unlimited" then return "same" end
    local sum = tonumber(was) + tonumber(amount)
    if sum > 2 ^ 50 then return "large" end
    amount = string.format("%.0f", sum)
  elseif old and amount == was and (note == "" or note == wasNote) then
    return "same"
  end
  if note == "" then note = wasNote end
  local at, who = by:match("^(%d+)(\n.*)$")
  by = string.format("%.0f", math.max(at, stamp(old or "") + 1)) .. who
  if name ~= "" then names = (names .. name):sub(-16 * #name) end
  return put(id, old, amount .. "\n" .. by .. "\n" .. note .. "\n" .. names, ARGV[2] .. id)
end

local results = {}
for i = 4, #ARGV, 6 do
  local kind, id, a, b, c, d = unpack(ARGV, i, i + 5)
  local old = redis.call("HMGET", KEYS[1], id)[1]
  if kind == "put" then
    results[#results + 1] = put(id, old, a, b ~= "" and b or ARGV[2] .. id)
  elseif kind == "assign" then
    results[#results + 1] = assign(id, old, a, b, c, d)
  else
    local newer = not old or stamp(old) < stamp(a)
    results[#results + 1] = newer and put(id, old, a, old and ARGV[2] .. id) or "same"
  end
end
redis.call("LTRIM", KEYS[2], 0, 4095)
return results
