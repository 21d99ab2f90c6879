-- job_move: a job continues in another shard; leave a pointer to it in this one.
-- Replies: moved | stale (no such job, or not waiting for a retry)
-- include: record
local job_key = KEYS[1]   -- string, the job's record
local attempt = ARGV[1]
local before  = ARGV[2]   -- states in which this may happen
local shard   = ARGV[3]

local known = read_record(job_key)
if not known or known.attempt ~= attempt or not string.find(before, known.state, 1, true) then return {'stale'} end
known.rest = with_line(known.rest, 'moved_to', shard)
write_record(job_key, known)
return {'moved'}
