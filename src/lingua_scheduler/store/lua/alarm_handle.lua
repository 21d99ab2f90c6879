-- alarm_handle: acknowledge, silence, forget or reset an alarm, for all instances.
-- Replies: handled | gone (it is not raised, and only silencing takes one that may come) | full (too many are known)
-- include: clock
-- include: alarm_entry
local known    = KEYS[1]   -- hash alarm -> entry
local alarm    = ARGV[1]
local action   = ARGV[2]
local until_ms = ARGV[3]   -- from now, of a silence
local by       = ARGV[4]
local over_ms  = ARGV[5]
local most     = ARGV[6]
local now_ms   = ARGV[7]

local now = clock(now_ms)
local entry = alarm_entry(redis.call('HGET', known, alarm))
local is_raised = entry and math.abs(now - entry.seen) <= tonumber(over_ms)
if action ~= 'silence' and not (is_raised or (action == 'reset' and entry)) then return {'gone'} end
if not entry then
  -- What is silenced ahead leaves room for what is raised.
  if 2 * #redis.call('HKEYS', known) >= tonumber(most) then return {'full'} end
  entry = {since = 0, seen = 0, acknowledged = 0, silenced = 0, forgotten = 0, by = ''}
end
if action == 'acknowledge' then entry.acknowledged = now end
if action == 'silence' then entry.silenced = now + until_ms end
if action == 'forget' then entry.forgotten = now end
if action == 'reset' then entry.acknowledged, entry.silenced, entry.forgotten = 0, 0, 0 end
entry.by = action == 'reset' and '' or by
redis.call('HSET', known, alarm, alarm_text(entry))
return {'handled'}
