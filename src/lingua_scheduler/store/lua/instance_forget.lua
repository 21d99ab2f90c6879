-- instance_forget: an instance that has been dead for long and left no mail need not be known any more.
-- Replies: forgotten | kept (it was there not so long ago)
-- include: clock
local alive     = KEYS[1]   -- zset instance -> last beat
local about     = KEYS[2]   -- hash instance -> incarnation and JSON
local figures   = KEYS[3]   -- hash instance -> what it counts
local instance  = ARGV[1]
local forget_ms = ARGV[2]
local now_ms    = ARGV[3]

local beat = tonumber(redis.call('ZSCORE', alive, instance) or 0)
if beat > clock(now_ms) - forget_ms then return {'kept'} end
redis.call('ZREM', alive, instance)
redis.call('HDEL', about, instance)
redis.call('HDEL', figures, instance)
return {'forgotten'}
