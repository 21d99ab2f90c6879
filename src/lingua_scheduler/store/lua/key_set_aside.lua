-- key_set_aside: rename keys of the wrong type, so that service continues without them.
-- No scheduler wrote them, and every script that uses one fails. They are kept for a while for an operator to look at.
-- Replies: a list of how many could not be renamed, then the names of those that were
local names   = {unpack(KEYS, 1)}  -- of keys, then the names they get
local keep_ms = ARGV[1]
local types   = {unpack(ARGV, 2)}  -- that are kept under the keys

local reply = {0}
for i, expected in ipairs(types) do
  local kind = redis.call('TYPE', names[i]).ok
  if kind ~= 'none' and kind ~= expected then
    if redis.pcall('RENAME', names[i], names[#types + i]).err then
      reply[1] = reply[1] + 1
    else
      redis.call('PEXPIRE', names[#types + i], keep_ms)
      reply[#reply + 1] = names[i]
    end
  end
end
return reply
