-- Changes texts of one part of the entries that servers share.
-- KEYS[1]  hash with the texts by ID. Its field "." is missing if Redis lost the part or never had it. The
--          field is "yes" or, if the last change restored lost texts, the time of the change in ms.
-- KEYS[2]  list of the last changes, newest first, each a token of 8 bytes and an ID
-- ARGV[1]  the newest change that the caller has read, "." if the list was empty, or "" if Redis had nothing
--          of the part; if that has changed, nothing happens
-- ARGV[2]  the token of these changes
-- ARGV[3]  1 to restore texts that Redis has lost. Then a text replaces only an older one, and for 2 s
--          calls without 1 change nothing, so that each server can restore its texts. A text that Redis
--          did not have is not listed, because a list full of such texts would hide the loss from other
--          servers. They notice the text by the number of texts.
-- ARGV     then distinct IDs, each followed by its text, or by "" to remove the text
-- Returns the newest change, as in ARGV[1], or, if nothing happened, "behind" (see ARGV[1]) or "wait" (see ARGV[3]).
local function newest()
  return redis.call("LRANGE", KEYS[2], 0, 0)[1] or redis.call("HLEN", KEYS[1]) > 0 and "." or ""
end
if newest() ~= ARGV[1] then return "behind" end

local ids, gone, set, listed = {"."}, {}, {}, {}
for i = 4, #ARGV, 2 do ids[#ids + 1] = ARGV[i] end
local stored = redis.call("HMGET", KEYS[1], unpack(ids))

local time, again = redis.call("TIME"), ARGV[3] == "1"
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local made = tonumber(stored[1] or "") or 0
if not again and made <= now and now < made + 2000 then return "wait" end

-- stamp returns the time of the last change of an amount, or 0 for an exception, which never changes.
local function stamp(text) return tonumber(text:match("^[^\n]*\n(%d+)\n") or "") or 0 end

for i = 2, #ids do
  local old, text = stored[i] or "", ARGV[2 * i + 1]
  if text ~= old and not (again and text ~= "" and old ~= "" and stamp(old) >= stamp(text)) then
    gone[#gone + 1] = ids[i]
    if text ~= "" then
      set[#set + 1] = ids[i]
      set[#set + 1] = text
    end
    if not again or old ~= "" then listed[#listed + 1] = ARGV[2] .. ids[i] end
  end
end
-- HDEL goes first, because then Redis lets the script write even if it is out of memory.
if #gone > 0 then redis.call("HDEL", KEYS[1], unpack(gone)) end
if #set > 0 then redis.call("HSET", KEYS[1], ".", again and string.format("%.0f", now) or "yes", unpack(set)) end
if #listed > 0 then redis.call("LPUSH", KEYS[2], unpack(listed)) end
redis.call("LTRIM", KEYS[2], 0, 4095)
return newest()
