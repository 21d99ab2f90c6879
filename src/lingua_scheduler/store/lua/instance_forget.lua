-- instance_forget: delete an instance that has been dead for long and has no letters.
-- Replies: forgotten | kept (its last heartbeat is too recent)
-- include: clock
local alive     = KEYS[1]   -- zset instance -> last heartbeat
local about     = KEYS[2]   -- hash instance -> incarnation and JSON
local figures   = KEYS[3]   -- hash instance -> its figures
local instance  = ARGV[1]
local forget_ms = ARGV[2]
local now_ms    = ARGV[3]

local beat = tonumber(redis.call('ZSCORE', alive, instance) or 0)
if beat > clock(now_ms) - forget_ms then return {'kept'} end
redis.call('ZREM', alive, instance)
redis.call('HDEL', about, instance)
redis.call('HDEL', figures, instance)
return {'forgotten'}
