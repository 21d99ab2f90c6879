-- leader_claim: become the leader, or go on being it. Who leads anew gets a higher epoch than anybody before.
-- Replies: leading epoch | following instance epoch
local leader   = KEYS[1]   -- string: instance and epoch; expires
local epochs   = KEYS[2]   -- how many leaders there were
local instance = ARGV[1]
local lease_ms = ARGV[2]

local known = redis.call('GET', leader)
if known then
  local who, epoch = string.match(known, '^(%S+) (%d+)$')
  if who ~= instance then return {'following', who, epoch} end
  redis.call('PEXPIRE', leader, lease_ms)
  return {'leading', epoch}
end
local epoch = string.format('%.0f', redis.call('INCR', epochs))
redis.call('SET', leader, instance .. ' ' .. epoch, 'PX', lease_ms)
return {'leading', epoch}
