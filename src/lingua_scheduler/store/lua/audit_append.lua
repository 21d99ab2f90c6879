-- audit_append: append an entry to the audit log, if its head is the one that the entry follows.
-- Replies: appended length | moved head (another writer was quicker, or the head is gone: empty then) |
--   behind id (the log has this later entry, although the head is the expected one: it was tampered with)
-- Redis has no HMAC for scripts, so the caller makes the hash and tries again when the head moved.
local log      = KEYS[1]   -- stream of entries, whose ids are their numbers
local head     = KEYS[2]   -- number and hash of the last entry
local expected = ARGV[1]   -- the head before; empty for none
local reached  = ARGV[2]   -- the head afterwards
local id       = ARGV[3]
local entry    = ARGV[4]

local found = redis.call('GET', head) or ''
-- Repeated after a lost reply.
if found == reached then return {'appended', redis.call('XLEN', log)} end
if found ~= expected then return {'moved', found} end
local reply = redis.pcall('XADD', log, id, 'entry', entry)
if type(reply) == 'table' and reply.err then
  local last = redis.call('XREVRANGE', log, '+', '-', 'COUNT', 1)[1]
  if string.find(reply.err, 'equal or smaller', 1, true) and last then return {'behind', last[1]} end
  return reply
end
redis.call('SET', head, reached)
return {'appended', redis.call('XLEN', log)}
