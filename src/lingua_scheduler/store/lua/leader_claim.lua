-- leader_claim: leader election: become the leader, or stay it. A new leader gets a higher epoch (fencing token).
-- An entry that is unreadable or does not expire was not written by a leader, and is ignored.
-- Replies: leading epoch | following instance epoch
-- include: clock
-- include: number
local leader   = KEYS[1]   -- string: instance and epoch; expires
local epochs   = KEYS[2]   -- number of leaders so far
local instance = ARGV[1]
local lease_ms = ARGV[2]
local now_ms   = ARGV[3]

local who, epoch = string.match(redis.call('GET', leader) or '', '^([%w_.-]+) (%d+)$')
if not read_number(epoch) then who = nil end
-- A user made before we asked for the time left may not ask: then it counts.
local is_endless = who and redis.pcall('PTTL', leader) == -1
if who and (who == instance or not is_endless) then
  if who ~= instance then return {'following', who, epoch} end
  redis.call('PEXPIRE', leader, lease_ms)
  return {'leading', epoch}
end
local risen = redis.pcall('INCR', epochs)
if type(risen) ~= 'number' or risen >= 1e15 then
  -- Higher than any number of leaders.
  risen = clock(now_ms)
  redis.call('SET', epochs, string.format('%.0f', risen))
end
epoch = string.format('%.0f', risen)
redis.call('SET', leader, instance .. ' ' .. epoch, 'PX', lease_ms)
return {'leading', epoch}
