-- job_explain: keep an explanation on a job's record, as long as there is one.
-- Replies: kept | gone
local job_key     = KEYS[1]   -- hash, the job
local explanation = ARGV[1]

if redis.call('EXISTS', job_key) == 0 then return {'gone'} end
redis.call('HSET', job_key, 'explanation', explanation)
return {'kept'}
