-- job_explain: store an explanation in a job's record, if the record exists.
-- Replies: kept | gone
-- include: record
local job_key     = KEYS[1]   -- string, the job's record
local explanation = ARGV[1]   -- in one line

local known = read_record(job_key)
if not known then return {'gone'} end
known.rest = with_line(known.rest, 'explanation', explanation)
write_record(job_key, known)
return {'kept'}
