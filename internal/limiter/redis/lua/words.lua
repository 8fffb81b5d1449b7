-- The words of replies. Numbers are never negative, so none is one of these. reply.go has them, too.

-- Of a counter, if not its short state (see state.lua). Its state follows, in three numbers.
local ADMITTED, OVER = -1, -2
local ALREADY = -6 -- as ADMITTED, and its hold was as the hit wants it
local BANNED = -5  -- until when it is banned follows, and then what else is said of it

-- Behind the time, before all counters.
local SINGLE = -3    -- some requests were decided one after the other, see decide.lua
local REFUSED = -4   -- so they were, and the writes of the others were refused
local NO_WINDOW = -7 -- nothing was done, see limits.lua

