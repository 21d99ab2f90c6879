-- inbox_claim: claim letters again that were delivered `idle_ms` ago and are not done, page by page; in an adoption also
-- letters that were never delivered. The page begins at `cursor`; the reply has the next cursor, empty after the last.
-- XPENDING and XCLAIM rather than XAUTOCLAIM: only they return how often a letter was delivered.
-- Replies: claimed cursor letters (each: entry, deliveries, fields) | lost (another instance has adopted it)
-- include: clock
local inbox    = KEYS[1]   -- stream of letters
local adopter  = KEYS[2]   -- hash: by, epoch, until
local group    = ARGV[1]
local consumer = ARGV[2]
local idle_ms  = ARGV[3]
local cursor   = ARGV[4]
local count    = ARGV[5]
local epoch    = ARGV[6]   -- of the adoption; empty: the consumer reads its own inbox
local hold_ms  = ARGV[7]
local now_ms   = ARGV[8]

if epoch ~= '' then
  local held = redis.call('HMGET', adopter, 'by', 'epoch')
  if held[1] ~= consumer or held[2] ~= epoch then return {'lost'} end
  redis.call('HSET', adopter, 'until', clock(now_ms) + hold_ms)
end
local pending = redis.pcall('XPENDING', inbox, group, 'IDLE', idle_ms, cursor, '+', count)
if pending.err then
  if not string.find(pending.err, 'NOGROUP') then return pending end
  redis.call('XGROUP', 'CREATE', inbox, group, '0', 'MKSTREAM')
  pending = {}
end

local letters, next_cursor = {}, ''
for _, found in ipairs(pending) do
  local claimed = redis.call('XCLAIM', inbox, group, consumer, 0, found[1])[1]
  if claimed then
    letters[#letters + 1] = {found[1], found[4] + 1, claimed[2]}
  else
    -- Deleted, but still on the list: 6.2 leaves it there.
    redis.call('XACK', inbox, group, found[1])
  end
end
if #pending == tonumber(count) then
  next_cursor = '(' .. pending[#pending][1]
elseif epoch ~= '' then
  local left = count - #pending
  local unread = redis.call('XREADGROUP', 'GROUP', group, consumer, 'COUNT', left, 'STREAMS', inbox, '>')
  for _, letter in ipairs(unread and unread[1][2] or {}) do letters[#letters + 1] = {letter[1], 1, letter[2]} end
end
return {'claimed', next_cursor, letters}
