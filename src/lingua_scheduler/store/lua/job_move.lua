-- job_move: a job goes on in another shard; whoever looks here is told where.
-- Replies: moved | stale (no such job, or not waiting for another attempt)
local job_key = KEYS[1]   -- hash, the job
local attempt = ARGV[1]
local before  = ARGV[2]   -- states in which this may happen
local shard   = ARGV[3]

local known = redis.call('HMGET', job_key, 'attempt', 'state')
if known[1] ~= attempt or not string.find(before, known[2], 1, true) then return {'stale'} end
redis.call('HSET', job_key, 'moved_to', shard)
return {'moved'}
