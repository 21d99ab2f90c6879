-- instance_beat: heartbeat of an instance. `join` announces the instance; `beat` does not, because its inbox must exist first.
-- Replies: joined | alive | was_dead (silent for too long, or unknown: join again) | superseded (another process
-- has its id) | taken beat_ms (of a join: another process has the id; the time of its last heartbeat)
-- include: clock
local alive       = KEYS[1]   -- zset instance -> last heartbeat
local about       = KEYS[2]   -- hash instance -> incarnation and JSON
local figures     = KEYS[3]   -- hash instance -> its figures; missing only once the instance has left
local instance    = ARGV[1]
local incarnation = ARGV[2]
local verb        = ARGV[3]
local profile     = ARGV[4]
local dead_ms     = ARGV[5]
local counted     = ARGV[6]
local now_ms      = ARGV[7]

local now = clock(now_ms)
-- A malformed entry names no instance, and is written again.
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
