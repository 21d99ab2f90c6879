-- instance_beat: an instance is alive. The verb `join` announces it; a `beat` never does, because its inbox must be ready first.
-- Replies: joined | alive | was_dead (silent for too long, or unknown: join again) | superseded (another process
-- has its id) | taken beat_ms (of a join: another process has the id, and beat at that moment)
-- include: clock
local alive       = KEYS[1]   -- zset instance -> last beat
local about       = KEYS[2]   -- hash instance -> incarnation and JSON
local figures     = KEYS[3]   -- hash instance -> what it counts; missing only once the instance has left
local instance    = ARGV[1]
local incarnation = ARGV[2]
local verb        = ARGV[3]
local profile     = ARGV[4]
local dead_ms     = ARGV[5]
local counted     = ARGV[6]
local now_ms      = ARGV[7]

local now = clock(now_ms)
-- What no instance can have written names nobody, and is written again.
local holder = string.match(redis.call('HGET', about, instance) or '', '^([%w_.-]+) {.*}$')
local beat = tonumber(redis.call('ZSCORE', alive, instance) or 0)
local is_alive = beat > now - dead_ms
if verb == 'join' then
  if is_alive and holder and holder ~= incarnation then return {'taken', beat} end
  redis.call('HSET', about, instance, incarnation .. ' ' .. profile)
  -- Written with the announcement: an instance killed before it counts anything has died, not left.
  redis.call('HSETNX', figures, instance, counted)
  redis.call('ZADD', alive, now, instance)
  return {'joined'}
end
if holder and holder ~= incarnation then return {'superseded'} end
if not holder or not is_alive then return {'was_dead'} end
redis.call('ZADD', alive, now, instance)
return {'alive'}
